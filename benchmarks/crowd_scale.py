"""A crowd and a chain of near duplicates, end to end by both engines, and the same of ten times as many documents.

    python benchmarks/crowd_scale.py                    crowds of 10^5 and 10^6, chains of 10^4 and 10^5; half an hour
    python benchmarks/crowd_scale.py --kinds crowd --documents 1000000 --engines spark        one of them, measured anew

In the crowd every document has the same 60 words and one of its own, so that nearly all of them fall into one bucket of
each band. In the chain each has 120 words, the first two of which are not in the next one: a document is near to those
just before it alone, and whether it stays depends on all before them. The recipe has near duplicates and nothing else.
Each run is a fresh process with two workers, or a Spark of `local[2]` with every query answered by Spark. Memory is the
resident memory of the process tree, sampled ten times a second. What each query takes is printed while a run goes on,
and kept. Results go to benchmarks/results/crowd_scale.json, run by run, where those of other runs stay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from curation.whole import Peak
from harness.machine import facts, load
from harness.processes import cpu_seconds

HERE = Path(__file__).resolve().parent
DATA, RESULTS = HERE / "data" / "crowd_scale", HERE / "results"
DOCUMENTS_A_FILE = 100_000
CROWD_WORDS, CHAIN_WORDS, CHAIN_STEP = 60, 120, 2
CORES, TIMES = 2, 10
_CROWD = " ".join(f"word{i}" for i in range(CROWD_WORDS))


def crowd(number: int) -> str:
    return f"{_CROWD} own{number}"


def chain(number: int) -> str:
    return " ".join(f"word{CHAIN_STEP * number + i}" for i in range(CHAIN_WORDS))


KINDS: dict[str, Callable[[int], str]] = {"chain": chain, "crowd": crowd}
SIZES = {"chain": (10_000, 100_000), "crowd": (100_000, 1_000_000)}


def make(folder: Path, text: Callable[[int], str], documents: int) -> None:
    """Files of JSON lines."""
    for first in range(0, documents, DOCUMENTS_A_FILE):
        with (folder / f"{first:08d}.jsonl").open("w") as file:
            rows = range(first, min(first + DOCUMENTS_A_FILE, documents))
            file.writelines(json.dumps({"id": str(i), "text": text(i)}) + "\n" for i in rows)


def engine_of(name: str) -> Any:
    """What runs the recipe: a name, or an engine whose queries are all Spark's."""
    if name == "local":
        return name
    from pyspark.sql import SparkSession

    from gristmill.engine.spark import SparkEngine

    os.environ["PYSPARK_PYTHON"] = sys.executable
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "4g",
             "spark.sql.shuffle.partitions": "8",
             "spark.network.timeout": "3600s"}  # by then a machine that was stopped goes on  # fmt: skip
    made = SparkSession.builder.master(f"local[{CORES},4]").config(map=quiet).getOrCreate()
    made.sparkContext.setLogLevel("FATAL")
    return SparkEngine(made, small_query=0)


def timed_queries() -> dict[str, dict[str, float]]:
    """What the queries that follow take, step by step, as it comes."""
    from gristmill.stages.work import Workshop

    found: dict[str, dict[str, float]] = {}
    run = Workshop._run

    def timed(self: Workshop, query: Any, tables: Any) -> Any:
        began, before = time.perf_counter(), cpu_seconds(os.getpid())
        rows = run(self, query, tables)
        spent = {"queries": 1, "seconds": time.perf_counter() - began,
                 "cpu_seconds": cpu_seconds(os.getpid()) - before}  # fmt: skip
        step = found.setdefault(query.step, dict.fromkeys(spent, 0.0))
        step.update({name: round(step[name] + value, 2) for name, value in spent.items()})
        print(f"{time.strftime('%H:%M:%S')} {query.step}: {rows.rows:,} rows, {step}", file=sys.stderr, flush=True)
        return rows

    Workshop._run = timed  # type: ignore[method-assign]
    return found


def prepared(engine: str, text: Path, out: Path) -> dict[str, Any]:
    """A store of the text, timed without the start of a session."""
    import gristmill as gm

    queries = timed_queries()
    recipe = {"out": str(out), "sources": [{"name": "text", "paths": [str(text)]}], "tokenizer": "byte",
              "clean": None, "dedup": ["near"], "store": {"val_fraction": 0}}  # fmt: skip
    chosen = engine_of(engine)
    began, before = time.perf_counter(), cpu_seconds(os.getpid())
    manifest = gm.prepare(recipe, engine=chosen, options=gm.RunOptions(workers=CORES))
    kept = sum(shard.documents for shard in manifest.splits["train"])
    return {"seconds": time.perf_counter() - began, "cpu_seconds": cpu_seconds(os.getpid()) - before, "kept": kept,
            "queries": queries,
            "manifest": hashlib.sha256((out / "manifest.json").read_bytes()).hexdigest()[:16]}  # fmt: skip


def in_process(engine: str, text: Path) -> dict[str, Any]:
    """The same in a fresh process that is watched."""
    with tempfile.TemporaryDirectory(dir=DATA) as folder:
        command = [sys.executable, "-W", "ignore", __file__, "--task", engine, str(text), str(Path(folder) / "out")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with Peak(process.pid) as peak:
            printed, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{engine} failed")
    return {**json.loads(printed.splitlines()[-1]), "peak_megabytes": round(peak.bytes / 1e6)}


def runs(kind: str, documents: int, engines: list[str]) -> Iterator[dict[str, Any]]:
    """Every engine over one text."""
    text = Path(tempfile.mkdtemp(dir=DATA))
    try:
        make(text, KINDS[kind], documents)
        for engine in engines:
            found = {"kind": kind, "documents": documents, "engine": engine, "load": load(),
                     **in_process(engine, text)}  # fmt: skip
            print(found, flush=True)
            yield found
    finally:
        shutil.rmtree(text)


def growth(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By how much time and memory grew over a tenfold text, engine by engine."""
    by_name = {(run["kind"], run["engine"], run["documents"]): run for run in found}
    return [
        {"kind": kind, "engine": engine, "documents": documents,
         **{key: large[key] / small[key] for key in ("seconds", "cpu_seconds", "peak_megabytes")}}
        for (kind, engine, documents), large in by_name.items()
        if (small := by_name.get((kind, engine, documents // TIMES)))
    ]  # fmt: skip


def same_bytes(found: list[dict[str, Any]]) -> bool:
    """Whether all engines wrote the same store of each text."""
    stores = {(run["kind"], run["documents"], run["manifest"]) for run in found}
    return len(stores) == len({(kind, documents) for kind, documents, _ in stores})


def main() -> None:
    """Measure, write the results, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=[*KINDS])
    parser.add_argument(
        "--documents", type=int, nargs="+", help="unless given, what the kind asks for and ten times that"
    )
    parser.add_argument("--engines", nargs="+", default=["local", "spark"], choices=["local", "spark"])
    parser.add_argument("--out", type=Path, default=RESULTS / "crowd_scale.json")
    parser.add_argument("--task", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        engine, text, out = given.task
        print(json.dumps(prepared(engine, Path(text), Path(out))), flush=True)
        os._exit(0)
    DATA.mkdir(parents=True, exist_ok=True)
    for kind in given.kinds:
        for documents in given.documents or SIZES[kind]:
            for run in runs(kind, documents, given.engines):
                write(run, given.out)


def write(found: dict[str, Any], out: Path) -> None:
    """Put a run among those that were measured before."""
    names = ("kind", "documents", "engine")
    before = json.loads(out.read_text())["runs"] if out.exists() else []
    rest = [run for run in before if any(run[name] != found[name] for name in names)]
    kept = sorted([*rest, found], key=lambda run: [run[name] for name in names])
    results = {"machine": facts(), "runs": kept, "growth": growth(kept), "same_bytes": same_bytes(kept)}
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
