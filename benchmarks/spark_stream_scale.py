"""Training from a Spark DataFrame and from one ten times as large: memory of client and driver, time of queries.

    python benchmarks/spark_stream_scale.py [--documents 1000000] [--steps 200]

Each table is measured as it was written, and sorted by `clustered`, in a process of its own with a Spark of two cores
and 1 GB. Results go to benchmarks/results/spark_stream_scale.json. Tables are written to benchmarks/data and removed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gristmill.adapters.spark_stream import SparkStreamLoader, clustered
from gristmill.streams.census import FrameUnits
from harness.client import BENCHMARKS
from harness.machine import facts, load

ROWS, SEQ_LEN = 16, 2048
# A kilobyte or so, no two alike.
TEXT = "concat('Document ', id, ': ', repeat(concat('the mill grinds ', xxhash64(id), ' and asks nobody '), 20))"


def session() -> Any:
    """Spark inside of this process: its driver is its executor."""
    from pyspark.sql import SparkSession

    settings = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
                "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}  # fmt: skip
    made = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def write_tables(folder: Path, documents: int) -> None:
    """A table of so many documents, and the same one sorted."""
    spark = session()
    spark.range(documents).selectExpr("cast(id as string) as id", f"{TEXT} as text").write.parquet(f"{folder}/plain")
    plain = spark.read.parquet(f"{folder}/plain")
    clustered(plain, id_col="id").write.option("parquet.block.size", 8 << 20).parquet(f"{folder}/sorted")


def resident() -> int:
    """MB of this process, Java not among them."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


def heap(spark: Any) -> int:
    """MB that Java holds once what nobody needs is gone."""
    spark._jvm.java.lang.System.gc()
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    return round((runtime.totalMemory() - runtime.freeMemory()) / 1e6)


def timed_queries() -> list[float]:
    """The seconds of each query that follows, as they come."""
    seconds: list[float] = []
    fetch = FrameUnits.fetch

    def timed(self: FrameUnits, units: Any) -> Any:
        began = time.perf_counter()
        found = fetch(self, units)
        seconds.append(time.perf_counter() - began)
        return found

    FrameUnits.fetch = timed  # type: ignore[method-assign]
    return seconds


def walked(table: str, steps: int) -> dict[str, object]:
    """What a loader of this table takes: its count, its queries, and the memory after each tenth of `steps`."""
    spark, queries = session(), timed_queries()
    began = time.perf_counter()
    loader = SparkStreamLoader(spark.read.parquet(table), "gpt2", SEQ_LEN, ROWS, options={"id_col": "id"})
    counted, client, driver = time.perf_counter() - began, [], []
    for step, _ in zip(range(steps), loader, strict=False):
        if (step + 1) % max(steps // 10, 1) == 0:
            client.append(resident())
            driver.append(heap(spark))
    loader.close(wait=True)
    return {"count_seconds": counted, "queries": len(queries), "query_seconds": sorted(queries)[len(queries) // 2],
            "client_mb": client, "driver_heap_mb": driver, "units": len(loader.stream.units[0]),
            "tokens_per_second": loader.stats()["tokens_per_second"]}  # fmt: skip


def apart(*arguments: object) -> str:
    """What this program prints when it is asked for a part of its work in another process."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measured(folder: Path, documents: int, steps: int) -> dict[str, object]:
    """Both tables of so many documents."""
    apart("--write", folder / str(documents), "--documents", documents)
    found = {}
    for kind in ("plain", "sorted"):
        table = folder / str(documents) / kind
        found[kind] = json.loads(apart("--walk", table, "--steps", steps).splitlines()[-1])
        print(f"{documents:,} documents, {kind}: {found[kind]}", flush=True)
    return found


def main() -> None:
    """Measure a tenth of the documents and all of them, and keep the figures; or do a part of that."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--walk", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        write_tables(asked.write, asked.documents)
    elif asked.walk:
        print(json.dumps(walked(asked.walk, asked.steps)))
    else:
        compare(asked.documents, asked.steps)


def compare(documents: int, steps: int) -> None:
    """One table, and one of ten times as many documents."""
    folder = BENCHMARKS / "data" / "spark_stream_scale"
    before = load()
    try:
        found = {str(count): measured(folder, count, steps) for count in (documents // 10, documents)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    kept = {"machine": facts(), "load": [before, load()], "rows": ROWS, "documents": found}
    (BENCHMARKS / "results" / "spark_stream_scale.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
