"""Plans, their steps and batches, and checkpoints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from gristmill.core.errors import ConfigError
from gristmill.core.values import parse_json
from gristmill.loader.plan_file import load_plan
from gristmill.loader.state import check_state, check_values
from gristmill.order.mix import weight_text
from gristmill.order.phases import Segment
from gristmill.order.plan import Plan
from gristmill.places.door import place_at
from gristmill.show.asking import refuse_options
from gristmill.show.terminal import Row, facts, line, print_json, table

# How far an endless plan is shown unless it is said.
_ENDLESS_STEPS = 1000


def show_json_file(path: Path, chosen: argparse.Namespace) -> None:
    """A plan or a checkpoint."""
    values = parse_json(place_at(path).read(), str(path))
    if isinstance(values, dict) and "gristmill_plan" in values:
        refuse_options(chosen, "a plan", ("step", "doc", "until"))
        _show_plan(load_plan(path), chosen)
    elif isinstance(values, dict) and "digest" in values:
        refuse_options(chosen, "a checkpoint", ("plan",))
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
    elif chosen.json:
        print_json(plan_facts(plan, chosen.until))
    else:
        show_plan(plan, chosen.until)


def plan_facts(plan: Plan, until: int | None = None) -> dict[str, Any]:
    """A plan in figures: its phases with their exact weights, and what it has served at its end, or after `until`."""
    return {
        "fingerprint": plan.fingerprint,
        "steps": plan.total_steps,
        "seed": plan.seed,
        "options": {key: value for key, value in plan.options.to_dict().items() if key != "phases"},
        "phases": [_phase_facts(plan, segment) for segment in plan.segments],
        "forecast": plan.forecast(_ENDLESS_STEPS if until is None and not plan.total_steps else until).to_dict(),
    }


def _phase_facts(plan: Plan, segment: Segment) -> dict[str, Any]:
    weights = zip(plan.names, map(weight_text, segment.mix.weights), strict=True)
    return {"from_step": segment.from_step, "to_step": segment.to_step, "seq_len": segment.seq_len,
            "batch_size": segment.batch_size, "weights": dict(weights)}  # fmt: skip


def show_plan(plan: Plan, until: int | None = None) -> None:
    """A plan on the screen: its phases and weights uncut, and its forecast."""
    known = plan_facts(plan, until)
    line(repr(plan))
    line(f"fingerprint {plan.fingerprint}")
    for name, value in known["options"].items():
        line(f"{name}: {f'{len(value):,}' if isinstance(value, list) else value}")
    line("")
    columns = ("from step", "to step", "seq_len", "batch_size")
    table("", columns, [Row([row[name] for name in ("from_step", "to_step", "seq_len", "batch_size")],
                            f"weights: {_weights(row['weights'])}") for row in _ended(known["phases"])])  # fmt: skip
    forecast = known["forecast"]
    line(f"\nAfter {forecast['step']:,} steps and {forecast['tokens']:,} tokens:")
    table("", ("source", "samples", "share", "tokens", "epochs"), [_source_row(row) for row in forecast["sources"]])


def _ended(phases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last phase of an endless plan ends nowhere."""
    return [{**row, "to_step": "" if row["to_step"] is None else row["to_step"]} for row in phases]


def _weights(weights: dict[str, str]) -> str:
    """`web 0.7, code 0.3`, exact; a fraction also in percent."""
    return ", ".join(f"{name} {text} ({float(Fraction(text)):.2%})" if "/" in text else f"{name} {text}"
                     for name, text in weights.items())  # fmt: skip


def _source_row(row: dict[str, Any]) -> Row:
    """What a source has served; below it where its epochs begin and what is served by none."""
    below = []
    if row["next_epoch_steps"]:
        below.append(f"new epochs begin at steps {', '.join(f'{step:,}' for step in row['next_epoch_steps'])}")
    if row["unread_tokens"]:
        below.append(f"phases leave {row['unread_tokens']:,} tokens unread")
    if row["unserved_tokens"]:
        below.append(f"{row['unserved_tokens']:,} tokens of an epoch fill no sequence")
    cells = (row["name"], row["samples"], f"{row['share']:.2%}", row["tokens"], f"{row['epochs']:,.2f}")
    return Row(cells, "; ".join(below))


def _show_rows(rows: list[dict[str, Any]], title: str, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        table(title, list(rows[0]), [list(row.values()) for row in rows])
    else:
        line(f"{title} no step")


def _show_state(state: dict[str, Any], chosen: argparse.Namespace) -> None:
    check_values(state)
    if chosen.plan:
        check_state(load_plan(chosen.plan), state)
        state = {**state, "belongs to": chosen.plan}
    if chosen.json:
        print_json(state)
    else:
        facts("checkpoint", {key: value for key, value in state.items() if key != "parts"})


def show_batch(plan: Plan, batch: dict[str, Any], step: int, decode: Callable[[Any], str], rows: int = 4) -> None:
    """The first rows of a batch as text, with the documents behind them."""
    traced = plan.trace(step)
    cells = []
    for row in range(min(rows, len(batch["input_ids"]))):
        documents = [item for item in traced if item.row == row]
        first = documents[0]
        more = f" and {len(documents) - 1} more" if len(documents) > 1 else ""
        text = decode(batch["input_ids"][row][:24]).replace("\n", "⏎")
        ids = " ".join(str(token) for token in batch["input_ids"][row][:5])
        below = f"{first.doc_id} [{first.start}:{first.end}]{more}"
        cells.append(Row((row, first.source, f"{ids} …", text[:40]), below))
    table(f"step {step:,}", ("row", "source", "input_ids", "text"), cells)
