"""What the driver of `prepare` on a Spark cluster holds, and what it holds of a corpus ten times as large.

    python benchmarks/spark_driver_scale.py             10^5 and 10^6 documents; a quarter of an hour, 10 GB of disk
    python benchmarks/spark_driver_scale.py --documents 10000 100000

The cluster is that of the tests: a master and two workers on this machine, so that the driver's Python and its Java are
processes that do nothing else. Documents are those of dedup_scale.py (some 350 bytes each; copies and edited copies
among them); the recipe has a filter, exact, line and near duplicates, a shuffle and gpt2 tokens. Each corpus is
prepared twice: as it is by default, where DuckDB on the driver answers queries over at most 1 GiB within its limit of
memory, and with all queries answered by Spark. Five times a second it is noted what Python holds (without pages of
files), and every two seconds what Java holds after a collection. Results go to
benchmarks/results/spark_driver_scale.json, where those of other sizes stay.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_scale import texts_of
from harness.machine import facts, load

HERE = Path(__file__).resolve().parent
DATA, RESULTS = HERE / "data" / "spark_driver_scale", HERE / "results"
DOCUMENTS_A_FILE, TOKENS_A_SHARD = 2_000, 1_000_000  # so that units and shards grow with the corpus, too
FIRST_COPY = 100_001  # the first of those documents that may be copies of earlier ones
SMALL_QUERIES = {"default": None, "all by Spark": 0}
LOOK_SECONDS, COLLECT_SECONDS = 0.2, 2.0


def make(folder: Path, documents: int) -> None:
    """The corpus as Parquet files."""
    for first in range(0, documents, DOCUMENTS_A_FILE):
        numbers = FIRST_COPY + np.arange(first, min(first + DOCUMENTS_A_FILE, documents))
        table = pa.table({"id": pa.array(numbers).cast(pa.string()), "text": texts_of(numbers)})
        pq.write_table(table, folder / f"{first:09d}.parquet")


def python_bytes() -> int:
    """What this process holds that is no page of a file."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


class Watch:
    """The most that Python and Java hold, while a run goes on."""

    def __init__(self, spark: Any) -> None:
        self._jvm, self._ended = spark._jvm, threading.Event()
        self.python, self.heap = [python_bytes()], [self._live()]
        self._threads = [threading.Thread(target=self._look, args=look) for look in (
            (self.python, python_bytes, LOOK_SECONDS), (self.heap, self._live, COLLECT_SECONDS))]  # fmt: skip

    def _live(self) -> int:
        self._jvm.java.lang.System.gc()
        runtime = self._jvm.java.lang.Runtime.getRuntime()
        return int(runtime.totalMemory() - runtime.freeMemory())

    def _look(self, seen: list[int], look: Any, seconds: float) -> None:
        while not self._ended.wait(seconds):
            seen.append(look())

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    @property
    def figures(self) -> dict[str, int]:
        return {f"{name}_{what}_mb": round(value / 1e6) for name, seen in (("python", self.python), ("heap", self.heap))
                for what, value in (("before", seen[0]), ("peak", max(seen)), ("after", seen[-1]))}  # fmt: skip


def prepared(master: str, text: Path, out: Path, small_query: int | None) -> dict[str, Any]:
    """What the driver of one run holds."""
    from pyspark.sql import SparkSession

    import gristmill as gm
    from gristmill.engine.spark import SMALL_QUERY, SparkEngine

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "1g",
                "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
                "spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "1g"}  # fmt: skip
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    recipe = {"out": str(out), "sources": [{"name": "text", "paths": [str(text)]}], "tokenizer": "gpt2",
              "filters": [{"length": {"min_chars": 20}}], "dedup": ["exact", "lines", "near"], "shuffle": True,
              "store": {"tokens_per_shard": TOKENS_A_SHARD}}  # fmt: skip
    engine = SparkEngine(spark, small_query=SMALL_QUERY if small_query is None else small_query)
    began = time.perf_counter()
    with Watch(spark) as watch:
        manifest = gm.prepare(recipe, engine=engine)
    shards = [shard for split in manifest.splits.values() for shard in split]
    return {**watch.figures, "seconds": time.perf_counter() - began, "shards": len(shards),
            "kept": sum(shard.documents for shard in shards)}  # fmt: skip


def measured(documents: int) -> dict[str, Any]:
    """Both ways to answer queries over one corpus, each in a fresh process."""
    sys.path.append(str(HERE.parent / "tests"))
    from spark_cluster import SparkCluster

    found = {}
    with tempfile.TemporaryDirectory(dir=DATA) as name:
        folder = Path(name)
        (folder / "text").mkdir()
        make(folder / "text", documents)
        cluster = SparkCluster(folder)
        try:
            for way, small in SMALL_QUERIES.items():
                task = json.dumps([cluster.address, str(folder / "text"), str(folder / "out"), small])
                command = [sys.executable, "-W", "ignore", __file__, "--task", task]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[way] = json.loads(done.stdout.splitlines()[-1])
                print(f"{documents:,} documents, {way}: {found[way]}", flush=True)
                shutil.rmtree(folder / "out")
        finally:
            cluster.stop()
    return found


def main() -> None:
    """Measure both corpora and keep the figures; or do one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=RESULTS / "spark_driver_scale.json")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        master, text, out, small = json.loads(given.task)
        print(json.dumps(prepared(master, Path(text), Path(out), small)), flush=True)
        return
    DATA.mkdir(parents=True, exist_ok=True)
    for documents in given.documents:
        before = json.loads(given.out.read_text())["documents"] if given.out.exists() else {}
        found = {**before, str(documents): {"load": load(), **measured(documents)}}
        given.out.write_text(json.dumps({"machine": facts(), "documents": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
