"""What a person sees in a terminal: bars, tables, a decoded batch. Programs get JSON instead."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gristmill.core.errors import ConfigError
from gristmill.loader.loader import Loader
from gristmill.loader.state import check_state
from gristmill.order.options import PlanOptions
from gristmill.order.plan import Plan
from gristmill.run import load_plan
from gristmill.stages.account import dropped_documents
from gristmill.store.manifest import MANIFEST, SPLITS, read_manifest
from gristmill.store.reader import Store

if TYPE_CHECKING:
    from types import TracebackType

# Documents and paths are printed as they are: no markup, no emoji codes; and whole where nobody watches.
_WIDE = 500
console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)
_errors = Console(stderr=True, highlight=False, markup=False, emoji=False)
_SHOWN_TEXT = 1000
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Bar:
    """A progress bar on a terminal; only notes, on stderr, where nobody watches."""

    def __init__(self, quiet: bool = False) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._shown = _errors.is_terminal and not quiet
        self._bar = Progress(*columns, console=_errors, disable=not self._shown, transient=True)
        self._task: Any = None

    def __enter__(self) -> Bar:
        if self._shown:  # a disabled bar of older versions of rich still prints a line when it stops
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._bar.stop()

    def start(self, what: str, total: int) -> None:
        """Begin the next piece of work."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=total)

    def advance(self, amount: int) -> None:
        """Some of it is done."""
        self._bar.advance(self._task, amount)

    def note(self, text: str) -> None:
        """Something the user should know."""
        print(f"note: {text}", file=sys.stderr)


def print_json(values: Any) -> None:
    """JSON on stdout."""
    print(json.dumps(values, indent=1))


def plain(text: str) -> str:
    """Text that cannot steer a terminal: control characters are spelt out."""
    return text.translate(_CONTROLS)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; numbers to the right."""
    console.print(plain(title), soft_wrap=True)
    made = Table()
    for i, name in enumerate(columns):
        numeric = all(isinstance(row[i], int | float) or row[i] == "" for row in rows)
        made.add_column(name, justify="right" if numeric and rows else "left")
    for row in rows:
        made.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else plain(str(cell))) for cell in row))
    console.print(made)


def show_store(path: Path, open_store: Callable[..., Store], *, as_json: bool) -> None:
    """The figures of a store's splits and its funnel; `path` is the store or one of its splits."""
    root = path.parent if path.name in SPLITS and not (path / MANIFEST).exists() else path
    values = read_manifest(root)
    splits = {split: open_store(root / split) for split in SPLITS if split in values["splits"]}
    figures = {name: _split_figures(store) for name, store in splits.items()}
    if as_json:
        kept = ("dtype", "eos", "vocab_size", "tokenizer", "recipe", "funnel", "versions")
        compression = values.get("compression", "none")
        print_json(
            {"path": str(root), "splits": figures, "compression": compression, **{key: values[key] for key in kept}}
        )
        return
    rows = [(name, *row.values()) for name, row in figures.items()]
    columns = ("split", "shards", "documents", "tokens", "fingerprint")
    table(f"{root}: {values['tokenizer']['name']} tokens, {values['dtype']}, EOS {values['eos']}", columns, rows)
    _show_funnel(values["funnel"])


def show_forecast(forecast: dict[str, Any], as_json: bool) -> None:
    """What a run would do: inputs, steps, what the sample's rules say, an estimate."""
    if as_json:
        print_json(forecast)
        return
    sources, sample, estimate = forecast["sources"], forecast["sample"], forecast["estimate"]
    table(f"inputs of {forecast['out']}", list(sources[0]), [list(row.values()) for row in sources])
    console.print(f"steps: {' > '.join(forecast['steps'])}; {forecast['workers']} workers", soft_wrap=True)
    if sample["rules"]:
        columns = ("rule", "alone", "only it", "in order", "reasons")
        rows = [(row["rule"], row["alone"], row["only"], row["in_order"],
                 ", ".join(f"{reason} {count:,}" for reason, count in row["reasons"].items()))
                for row in sample["rules"]]  # fmt: skip
        table(f"documents dropped of a sample of {sample['documents']:,}, {sample['kept']:,} kept", columns, rows)
    table("estimate, before dedup", list(estimate), [list(estimate.values())])


def _show_funnel(funnel: Sequence[dict[str, Any]]) -> None:
    """What each stage left of a source, and why the rest went; a count that a stage does not have is left blank."""
    keys = ("stage", "source", "documents", "bytes", "tokens")
    rows = [[*(row.get(key, "") for key in keys), _reasons(row)] for row in funnel]
    if rows:
        table("funnel", (*keys, "dropped"), rows)


def _reasons(row: dict[str, Any]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in row.get("reasons", {}).items())


def _split_figures(store: Store) -> dict[str, Any]:
    return {
        "shards": store.num_shards,
        "documents": store.num_documents,
        "tokens": store.num_tokens,
        "fingerprint": store.fingerprint if store.num_shards else "",
    }


def show_tokens(store: Store, as_json: bool) -> None:
    """What is known of foreign files."""
    facts = {"path": store.describe(), "dtype": store.dtype.name, "eos": store.eos, "shards": store.num_shards,
             "tokens": store.num_tokens, "boundaries": store.facts.boundary or "none"}  # fmt: skip
    if store.facts.boundary:
        facts["documents"] = store.num_documents
    if as_json:
        print_json(facts)
    else:
        table(store.describe(), list(facts), [list(facts.values())])


def show_document(path: Path, stores: Sequence[Store], doc_id: str, as_json: bool) -> None:
    """Where each document of this id lies and how its text begins, or why it is not there; as JSON a list."""
    found = [(store, i) for store in stores if store.num_shards for i in store.locate([doc_id])[doc_id]]
    dropped = dropped_documents(path, doc_id)
    if dropped and not found:
        _show_dropped(doc_id, dropped, as_json)
        return
    if not found:
        raise ConfigError(f"No document of {' and '.join(store.describe() for store in stores)} has the id {doc_id!r}.")
    rows = [_document_facts(store, i) for store, i in found]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        text = row.pop("text")
        table(doc_id, ("field", "value"), [(key, str(value)) for key, value in row.items()])
        console.print(plain(text[:_SHOWN_TEXT]), soft_wrap=True)
        if len(text) > _SHOWN_TEXT:
            console.print(f"... the first {_SHOWN_TEXT:,} of {len(text):,} characters; --json gives all")


def _show_dropped(doc_id: str, dropped: list[dict[str, Any]], as_json: bool) -> None:
    """A document that a rule dropped: which one, for which reason, by which figure or match."""
    if as_json:
        print_json(dropped)
        return
    for row in dropped:
        shown = {key: value for key, value in row.items() if value is not None and key != "text"}
        table(f"{doc_id} was dropped", ("field", "value"), [(key, str(value)) for key, value in shown.items()])
        if row.get("text"):
            console.print(plain(row["text"][:_SHOWN_TEXT]), soft_wrap=True)


def _document_facts(store: Store, i: int) -> dict[str, Any]:
    document, (start, end) = store.document(i), store.document_span(i)
    text = document.text if store.facts.tokenizer else ""
    return {"store": store.describe(), "number": i, "start": start, "end": end, **document.record, "text": text}


def show_json_file(path: Path, chosen: argparse.Namespace) -> None:
    """A plan or a checkpoint."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}.") from error
    if isinstance(values, dict) and "gristmill_plan" in values:
        _show_plan(load_plan(path), chosen)
    elif isinstance(values, dict) and "digest" in values:
        _show_state(values, chosen)
    else:
        raise ConfigError(f"{path} is neither a plan nor a checkpoint of a loader.")


def _show_plan(plan: Plan, chosen: argparse.Namespace) -> None:
    if chosen.step is not None:
        _show_rows([vars(row) for row in plan.trace(chosen.step)], f"step {chosen.step:,}", chosen.json)
    elif chosen.doc is not None:
        _show_rows(
            [vars(seen) for seen in plan.find(chosen.doc, chosen.until)], f"{chosen.doc} is seen in", chosen.json
        )
    else:
        forecast = plan.forecast(chosen.until or (None if plan.total_steps else 1000)).to_dict()
        if chosen.json:
            print_json({"fingerprint": plan.fingerprint, "steps": plan.total_steps, "forecast": forecast})
            return
        console.print(f"{plan!r}\nfingerprint {plan.fingerprint}", soft_wrap=True)
        _show_rows(forecast["sources"], f"after {forecast['step']:,} steps, {forecast['tokens']:,} tokens", False)


def _show_rows(rows: list[dict[str, Any]], title: str, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        table(title, list(rows[0]), [list(row.values()) for row in rows])
    else:
        console.print(f"{title} no step")


def _show_state(state: dict[str, Any], chosen: argparse.Namespace) -> None:
    if chosen.plan:
        check_state(load_plan(chosen.plan), state)
        state = {**state, "belongs to": chosen.plan}
    if chosen.json:
        print_json(state)
    else:
        table("checkpoint", ("field", "value"), [(key, value) for key, value in state.items() if key != "parts"])


def show_exchange(report: Any, as_json: bool) -> None:
    """What an export or import linked, copied, and says to its user."""
    values = dataclasses.asdict(report)
    if as_json:
        print_json(values)
        return
    for key in ("linked", "copied"):
        for name in values[key]:
            console.print(f"{key:8} {name}", soft_wrap=True)
    for note in values["notes"]:
        console.print(note, soft_wrap=True)


def show_batch(plan: Plan, batch: dict[str, Any], step: int, decode: Callable[[Any], str], rows: int = 4) -> None:
    """The first rows of a batch as text, with the documents behind them."""
    traced = plan.trace(step)
    cells = []
    for row in range(min(rows, len(batch["input_ids"]))):
        documents = [item for item in traced if item.row == row]
        first = documents[0]
        more = f" and {len(documents) - 1} more" if len(documents) > 1 else ""
        text = decode(batch["input_ids"][row][:24]).replace("\n", "⏎")
        ids = " ".join(str(token) for token in batch["input_ids"][row][:6])
        cells.append((row, first.source, f"{first.doc_id} [{first.start}:{first.end}]{more}", f"{ids} …", text[:60]))
    table(f"step {step:,}", ("row", "source", "documents", "input_ids", "text"), cells)


def show_bench(store: Store, chosen: argparse.Namespace) -> None:
    """Tokens/s and the time to the first batch, for 0, 1 and 2 threads."""
    keys = tuple(key for key in chosen.keys.split(",") if key)
    rows = [measure(store, chosen, keys, threads) for threads in (0, 1, 2)]
    if chosen.json:
        print_json(rows)
        return
    title = f"{store.describe()}: {chosen.cut} {chosen.seq_len} x {chosen.batch_size}"
    columns = ("threads", "million tokens/s", "batches/s", "first batch (ms)")
    table(title, columns, [_bench_cells(row) for row in rows])


def _bench_cells(row: dict[str, float]) -> list[Any]:
    return [
        row["threads"],
        round(row["tokens_per_second"] / 1e6, 1),
        round(row["batches_per_second"], 1),
        round(row["first_batch_seconds"] * 1e3, 1),
    ]


def measure(store: Store, chosen: argparse.Namespace, keys: tuple[str, ...], threads: int) -> dict[str, float]:
    """One row of `show_bench`: a loop that does nothing but take batches, for `chosen.seconds`."""
    began = time.perf_counter()
    options = PlanOptions(cut=chosen.cut)
    plan = Plan({"store": store}, seq_len=chosen.seq_len, batch_size=chosen.batch_size, steps=10**9, options=options)
    loader = Loader(plan, keys=keys, threads=threads)
    batches = iter(loader)
    next(batches)
    first = time.perf_counter() - began
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < chosen.seconds or not count:
        next(batches)
        count += 1
    elapsed = time.perf_counter() - began
    loader.close()
    return {
        "threads": threads,
        "tokens_per_second": count * chosen.seq_len * chosen.batch_size / elapsed,
        "batches_per_second": count / elapsed,
        "first_batch_seconds": first,
    }
