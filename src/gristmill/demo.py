"""`gristmill demo`: prepare, mix, trace, kill, resume and measure, on text that every Python installation has."""

from __future__ import annotations

import argparse
import json
import os
import pydoc
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.core.bar import Bar
from gristmill.core.errors import EngineError, StateError
from gristmill.indexing import index
from gristmill.loader.loader import Loader
from gristmill.loader.plan_file import load_plan
from gristmill.order.options import PlanOptions
from gristmill.order.plan import Plan
from gristmill.places.door import as_path, place_at
from gristmill.places.folders import refuse_others
from gristmill.places.local import is_temporary
from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.run import prepare
from gristmill.show.bench import measured, show_bench
from gristmill.show.plan import plan_facts, show_batch, show_plan
from gristmill.show.store import show_store, store_facts
from gristmill.show.terminal import line, paragraph, print_json
from gristmill.store.opening import open_store
from gristmill.store.reader import Store

SEQ_LEN, BATCH_SIZE, STEPS = 256, 16, 400
_NAMES = ("gristmill-demo.json", "raw", "code", "prose", "plan.json", "checkpoint.json")


def demo(out: str | None, as_json: bool = False) -> None:
    """Run all stages in `out`, or in a temporary folder that is removed afterwards; as JSON only the figures."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="gristmill-demo-") as temporary:
        root, shown = as_path("out", out or temporary), not as_json
        _claim(root)
        stores = _prepare_stores(root, shown)
        plan = _make_plan(root, shown)
        step = _look_at_step(plan, shown)
        resumed = _kill_and_resume(root / "plan.json", shown)
        bench = _throughput(root, shown)
        figures = {"stores": stores, "plan": plan_facts(plan), "step": step, "resumed": resumed, "bench": bench}
    seconds = time.perf_counter() - began
    if as_json:
        print_json({**figures, "out": out, "seconds": round(seconds, 3)})
    else:
        line(f"\nDone in {seconds:.1f} s." + (f" The stores are in {out}." if out else ""))


def _claim(root: Path) -> None:
    """Take a new or empty folder, or that of an earlier demo."""
    mark = root / "gristmill-demo.json"
    own = place_at(mark).is_file(links=False)
    refuse_others(root, lambda name: own and (name.partition("/")[0] in _NAMES or is_temporary(name)), "a demo")
    place_at(mark).write('{"gristmill": "demo"}\n')


def _heading(number: int, text: str) -> None:
    line(f"\n{number}. {text}", bold=True)


def _write_topics(folder: Path) -> None:
    """The help topics of `pydoc`, one text file each."""
    from pydoc_data.topics import topics

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in topics.items():
        (folder / f"{name}.txt").write_text(pydoc.plain(text), encoding="utf-8")


def _prepare_stores(root: Path, shown: bool) -> dict[str, Any]:
    if shown:
        _heading(1, "Prepare: the standard library's sources and pydoc's topics, two stores")
    _write_topics(root / "raw" / "topics")
    library = sysconfig.get_paths()["stdlib"]
    for name, paths in {
        "code": [f"{library}/*.py", f"{library}/[a-k]*/*.py"],
        "prose": [str(root / "raw" / "topics")],
    }.items():
        store = StoreOptions(tokens_per_shard=1_000_000, val_fraction=0.02)
        recipe = Recipe(str(root / name), [SourceOptions(name, paths)], tokenizer="gpt2", store=store, on_error="skip")
        with Bar(quiet=not shown) as bar:
            prepare(recipe, overwrite=True, progress=bar)
        if shown:
            show_store(root / name, as_json=False)
            line("")
    return {name: store_facts(root / name) for name in ("code", "prose")}


def _make_plan(root: Path, shown: bool) -> Plan:
    stores = {name: open_store(root / name / "train") for name in ("code", "prose")}
    for store in stores.values():
        index(store, SEQ_LEN)
    options = PlanOptions(cut="pack")
    weights = {"code": 0.7, "prose": 0.3}
    plan = Plan(stores, weights, seq_len=SEQ_LEN, batch_size=BATCH_SIZE, seed=0, steps=STEPS, options=options)
    plan.save(root / "plan.json")
    if shown:
        _heading(2, "Mix: 70 % code, 30 % prose, whole documents packed into windows")
        show_plan(plan)
    return plan


def _look_at_step(plan: Plan, shown: bool) -> dict[str, Any]:
    store = plan.sources[0].store
    assert isinstance(store, Store)
    loader = Loader(plan, keys=("labels", "doc_ids"), threads=0)
    batch = loader.batch(123)
    shapes = {key: f"{array.dtype}{list(array.shape)}" for key, array in batch.items()}
    document = plan.trace(123)[0].doc_id
    steps = list(dict.fromkeys(seen.step for seen in plan.find(document)[:8]))
    if shown:
        _heading(3, "A batch, decoded, with the documents behind it")
        show_batch(plan, batch, 123, store.decode)
        paragraph(", ".join(f"{key} {shape}" for key, shape in shapes.items()))
        paragraph(f"and back: {document!r} is seen in steps {', '.join(map(str, steps))} …")
    return {"step": 123, "arrays": shapes, "document": document, "seen_in": steps}


def _kill_and_resume(plan_file: Path, shown: bool) -> dict[str, Any]:
    if shown:
        _heading(4, "Kill a reader with SIGKILL, resume it on two ranks, compare every token")
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
        rows = np.empty((BATCH_SIZE, SEQ_LEN), dtype=np.int64)
        rows[0::2], rows[1::2] = parts[0]["input_ids"], parts[1]["input_ids"]
        if not np.array_equal(rows, whole.batch(ranks[0].step - 1)["input_ids"]):
            raise StateError("The resumed batches differ from the uninterrupted ones: please report this.")
        compared += rows.size
    size = len(json.dumps(state))
    if shown:
        paragraph(
            f"killed after step {state['step']}, checkpoint {size} bytes, loaded in {seconds * 1e3:.1f} ms; "
            f"{compared:,} tokens on 2 ranks equal those of 1"
        )
    return {"step": state["step"], "checkpoint_bytes": size, "load_seconds": seconds, "tokens_compared": compared}


def read(plan_file: str, checkpoint: str) -> None:
    """The reader that is killed: one step every 10 ms, its state written after each."""
    loader = Loader(load_plan(Path(plan_file)))
    for _ in loader:
        place_at(checkpoint).write(json.dumps(loader.state_dict()))
        time.sleep(0.01)


def _throughput(root: Path, shown: bool) -> list[dict[str, float]]:
    if shown:
        _heading(5, "Throughput of this machine")
    store = open_store(root / "code" / "train")
    chosen = argparse.Namespace(keys="", seq_len=SEQ_LEN, batch_size=BATCH_SIZE * 16, cut="pack", seconds=0.5)
    rows = measured(store, chosen)
    if shown:
        show_bench(store, chosen, rows)
    return rows


if __name__ == "__main__":
    read(*sys.argv[2:])
