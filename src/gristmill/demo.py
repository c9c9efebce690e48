"""`gristmill demo`: prepare, mix, trace, kill, resume and measure, on text that every Python installation has."""

from __future__ import annotations

import json
import os
import pydoc
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics
from typing import TypeVar

import numpy as np

from gristmill.core.bar import Bar
from gristmill.core.errors import EngineError, StateError
from gristmill.figures.bench import Asked, measured
from gristmill.figures.plan import batch_figures, plan_figures
from gristmill.figures.store import StoreFigures, store_figures
from gristmill.indexing import index
from gristmill.loader.fill import Batch
from gristmill.loader.loader import Loader
from gristmill.loader.plan_file import load_plan
from gristmill.order.options import PlanOptions
from gristmill.order.plan import Plan
from gristmill.places.door import as_path, place_at
from gristmill.places.folders import refuse_others
from gristmill.places.local import is_temporary
from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.run import prepare
from gristmill.show.plan import show_batch, show_plan
from gristmill.show.reports import show_bench
from gristmill.show.store import show_store
from gristmill.show.terminal import line, paragraph, print_json
from gristmill.store.opening import open_store
from gristmill.store.reader import Store
from gristmill.testing import join_ranks

T = TypeVar("T")
SEQ_LEN, BATCH_SIZE, STEPS = 256, 16, 400
_STEP = 123
_ASKED = Asked(SEQ_LEN, BATCH_SIZE * 16, "pack")
_NAMES = ("gristmill-demo.json", "raw", "code", "prose", "plan.json", "checkpoint.json")


@dataclass(frozen=True)
class Look:
    """What the batch of a step is made of, a document in it, and steps that see this document."""

    step: int
    arrays: dict[str, str]
    document: str
    seen_in: list[int]


@dataclass(frozen=True)
class Resumed:
    """How a killed reader was resumed."""

    step: int
    checkpoint_bytes: int
    load_seconds: float
    tokens_compared: int


def demo(out: str | None, as_json: bool = False) -> None:
    """Run all stages in `out`, or in a temporary folder that is removed afterwards; as JSON only the figures."""
    began, act = time.perf_counter(), partial(_act, quiet=as_json)
    with tempfile.TemporaryDirectory(prefix="gristmill-demo-") as temporary:
        root = as_path("out", out or temporary)
        _claim(root)
        stores = act("1. Prepare: the standard library's sources and pydoc's topics, two stores",
                     lambda: _prepare_stores(root, quiet=as_json), _show_stores)  # fmt: skip
        plan = act("2. Mix: 70 % code, 30 % prose, whole documents packed into windows",
                   lambda: _make_plan(root), lambda plan: show_plan(repr(plan), plan_figures(plan)))  # fmt: skip
        look = act("3. A batch, decoded, with the documents behind it",
                   lambda: _look_at_step(plan), lambda look: _show_look(plan, look))  # fmt: skip
        resumed = act("4. Kill a reader with SIGKILL, resume it on two ranks, compare every token",
                      lambda: _kill_and_resume(root / "plan.json"), _show_resumed)  # fmt: skip
        store = open_store(root / "code" / "train")
        bench = act("5. Throughput of this machine", lambda: measured(store, _ASKED, 0.5),
                    lambda rows: show_bench(store.describe(), _ASKED, rows))  # fmt: skip
    seconds = time.perf_counter() - began
    if as_json:
        made = {name: store.to_dict() for name, store in stores.items()}
        print_json({"stores": made, "plan": plan_figures(plan), "step": look, "resumed": resumed, "bench": bench,
                    "out": out, "seconds": round(seconds, 3)})  # fmt: skip
    else:
        line(f"\nDone in {seconds:.1f} s." + (f" The stores are in {out}." if out else ""))


def _act(heading: str, act: Callable[[], T], show: Callable[[T], None], quiet: bool) -> T:
    if quiet:
        return act()
    line(f"\n{heading}", bold=True)
    made = act()
    show(made)
    return made


def _claim(root: Path) -> None:
    """Take a new or empty folder, or that of an earlier demo."""
    mark = root / "gristmill-demo.json"
    own = place_at(mark).is_file(links=False)
    refuse_others(root, lambda name: own and (name.partition("/")[0] in _NAMES or is_temporary(name)), "a demo")
    place_at(mark).write('{"gristmill": "demo"}\n')


def _prepare_stores(root: Path, quiet: bool) -> dict[str, StoreFigures]:
    texts = root / "raw" / "topics"
    texts.mkdir(parents=True, exist_ok=True)
    for name, text in topics.items():
        (texts / f"{name}.txt").write_text(pydoc.plain(text), encoding="utf-8")
    library = sysconfig.get_paths()["stdlib"]
    for name, paths in {
        "code": [f"{library}/*.py", f"{library}/[a-k]*/*.py"],
        "prose": [str(texts)],
    }.items():
        store = StoreOptions(tokens_per_shard=1_000_000, val_fraction=0.02)
        recipe = Recipe(str(root / name), [SourceOptions(name, paths)], tokenizer="gpt2", store=store, on_error="skip")
        with Bar(quiet=quiet) as bar:
            prepare(recipe, overwrite=True, progress=bar)
    return {name: store_figures(root / name) for name in ("code", "prose")}


def _show_stores(stores: dict[str, StoreFigures]) -> None:
    for store in stores.values():
        show_store(store)
        line("")


def _make_plan(root: Path) -> Plan:
    stores = {name: open_store(root / name / "train") for name in ("code", "prose")}
    for store in stores.values():
        index(store, SEQ_LEN)
    options = PlanOptions(cut="pack")
    weights = {"code": 0.7, "prose": 0.3}
    plan = Plan(stores, weights, seq_len=SEQ_LEN, batch_size=BATCH_SIZE, seed=0, steps=STEPS, options=options)
    plan.save(root / "plan.json")
    return plan


def _look_at_step(plan: Plan) -> Look:
    shapes = {key: f"{array.dtype}{list(array.shape)}" for key, array in _batch(plan).items()}
    document = plan.trace(_STEP)[0].doc_id
    return Look(_STEP, shapes, document, list(dict.fromkeys(seen.step for seen in plan.find(document)[:8])))


def _batch(plan: Plan) -> Batch:
    return Loader(plan, keys=("labels", "doc_ids"), threads=0).batch(_STEP)


def _show_look(plan: Plan, look: Look) -> None:
    store = plan.sources[0].store
    assert isinstance(store, Store)
    show_batch(look.step, batch_figures(plan, _batch(plan), look.step, store.decode))
    paragraph(", ".join(f"{key} {shape}" for key, shape in look.arrays.items()))
    paragraph(f"and back: {look.document!r} is seen in steps {', '.join(map(str, look.seen_in))} …")


def _kill_and_resume(plan_file: Path) -> Resumed:
    checkpoint = plan_file.with_name("checkpoint.json")
    checkpoint.unlink(missing_ok=True)
    victim = subprocess.Popen([sys.executable, "-m", "gristmill.demo", "--read", str(plan_file), str(checkpoint)])
    while not checkpoint.exists() or json.loads(checkpoint.read_text())["step"] < 20:
        if victim.poll() is not None:
            raise EngineError("The reader ended before it could be killed: run the demo again.")
        time.sleep(0.02)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    state = json.loads(checkpoint.read_text())
    plan = load_plan(plan_file)
    ranks = [Loader(plan, rank, 2) for rank in range(2)]
    began = time.perf_counter()
    for loader in ranks:
        loader.load_state_dict(state)
    seconds = time.perf_counter() - began
    whole = Loader(plan, threads=0)
    compared = 0
    for parts in zip(*ranks, strict=True):
        rows = join_ranks(parts)["input_ids"]
        if not np.array_equal(rows, whole.batch(ranks[0].step - 1)["input_ids"]):
            raise StateError("The resumed batches differ from the uninterrupted ones: please report this.")
        compared += rows.size
    return Resumed(state["step"], len(json.dumps(state)), seconds, compared)


def _show_resumed(resumed: Resumed) -> None:
    paragraph(
        f"killed after step {resumed.step}, checkpoint {resumed.checkpoint_bytes} bytes, "
        f"loaded in {resumed.load_seconds * 1e3:.1f} ms; {resumed.tokens_compared:,} tokens on 2 ranks equal those of 1"
    )


def read(plan_file: str, checkpoint: str) -> None:
    """The reader that is killed: one step every 10 ms, its state written after each."""
    loader = Loader(load_plan(Path(plan_file)))
    for _ in loader:
        place_at(checkpoint).write(json.dumps(loader.state_dict()))
        time.sleep(0.01)


if __name__ == "__main__":
    read(*sys.argv[2:])
