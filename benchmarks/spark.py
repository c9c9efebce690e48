"""A recipe on Spark beside the same on this machine, and beside the sketch that people write for Spark themselves.

    python benchmarks/spark.py [--gigabytes 2] [--rounds 3]
    python benchmarks/spark.py --quick                      a few megabytes once: whether it runs, and no figures

Needs `gristmill[spark]`, Java 17, pandas and tokenizers. The text is that of curate.py with words exchanged, in files
of 24 MB. Each figure comes from a fresh process, and rounds take all contenders in turn. Processor seconds are told by
whose they are: Java's, those of Python workers inside of our jobs, and the rest of Python. Results go to
benchmarks/results/spark.json and spark.md; about an hour, and twelve times the text as disk.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # which the types of a pandas UDF name, and Spark looks them up

from corpus import english, write
from curation.texts import reworded, text_bytes
from gristmill.engine.spark import SMALL_QUERY, SparkEngine
from harness.machine import facts, load
from harness.processes import tree
from harness.render import table

HERE = Path(__file__).resolve().parent
DATA, RESULTS = HERE / "data" / "spark", HERE / "results"
MEGABYTES, CORES = 24, 2
# The sketch takes minutes for 100 MB: it gets one file of so many.
SKETCH_FILES = 8
_TICK = os.sysconf("SC_CLK_TCK")
WHOLE = {"filters": [{"length": {"min_chars": 200}}, {"gopher_repetition": {}}], "dedup": ["exact", "near"]}
TOKENS_ONLY: dict[str, Any] = {"filters": [], "dedup": [], "clean": None}


def recipe(text: Path, out: Path, kind: Mapping[str, Any]) -> dict[str, Any]:
    return {"out": str(out), "sources": [{"name": "text", "paths": [str(text)]}], "tokenizer": "gpt2", **kind}


def make_text(folder: Path, megabytes: float) -> None:
    """Copies of the same documents, each with other words."""
    documents = [(row["id"], row["text"]) for row in english(DATA, min(MEGABYTES, int(megabytes)) or 1).documents()]
    for copy in range(max(round(megabytes / MEGABYTES), 1)):
        write(folder / f"{copy:04d}.jsonl", reworded(documents, copy))


# Whose processor seconds they are.


def own_seconds(pid: int, ended: bool = False) -> float:
    """User and system time of a process, and, if asked, of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11 : 15 if ended else 13])) / _TICK


def cpu_split() -> dict[str, float]:
    """Of this process, of Java, and of Python workers, by now."""
    driver, *others = tree(os.getpid())
    java = [pid for pid in others if _name(pid) == "java"]
    workers = sum(own_seconds(pid, ended=True) for pid in others if pid not in java)
    workers += sum(own_seconds(pid, ended=True) - own_seconds(pid) for pid in java)
    return {"driver": own_seconds(driver), "java": sum(map(own_seconds, java)), "workers": workers}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    made = SparkSession.builder.master(f"local[{CORES},4]").config(map=quiet).getOrCreate()
    made.sparkContext.setLogLevel("FATAL")
    return made


# Engines that watch themselves.


def timed(function: Callable[[Any], Any], part: Any) -> tuple[Any, float]:
    """An answer, and the processor seconds that it took in its worker."""
    began = time.process_time()
    return function(part), time.process_time() - began


class Watched(SparkEngine):
    """Adds up the processor seconds inside of jobs."""

    inside = 0.0

    def map(self, function: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
        for answer, seconds in super().map(functools.partial(timed, function), parts):
            self.inside += seconds
            yield answer


class Both(SparkEngine):
    """Has every query answered by DuckDB and by Spark, and notes what each took."""

    def __init__(self, made: Any) -> None:
        super().__init__(made, small_query=0)
        self._context, self.seen = made.sparkContext, []  # type: ignore[var-annotated]

    def query(self, sql: str, tables: Mapping[str, Sequence[Path]], out: Path) -> list[Path]:
        group = f"query-{len(self.seen)}"
        size = sum(file.stat().st_size for files in tables.values() for file in files)
        began = time.perf_counter()
        self._duck.query(sql, tables, out.with_name("duck.parquet"))
        duck = time.perf_counter() - began
        out.with_name("duck.parquet").unlink()
        self._context.setJobGroup(group, group)
        began = time.perf_counter()
        found = super().query(sql, tables, out)
        row = {"query": out.parent.name, "bytes": size, "duckdb": duck, "spark": time.perf_counter() - began,
               "jobs": len(self._context.statusTracker().getJobIdsForGroup(group)), "files": len(found)}  # fmt: skip
        self.seen.append(row)
        return found


# The contenders, each in a process of its own: what they did, after `text` was there.


def local(kind: Mapping[str, Any], text: Path, out: Path) -> dict[str, Any]:
    import gristmill as gm

    options = gm.RunOptions(workers=CORES)
    return {"tokens": tokens_of(gm.prepare(recipe(text, out, kind), options=options, progress=False))}


def on_spark(kind: Mapping[str, Any], text: Path, out: Path) -> dict[str, Any]:
    import gristmill as gm

    began = time.perf_counter()
    engine = Watched(session())
    started = time.perf_counter() - began
    manifest = gm.prepare(recipe(text, out, kind), engine=engine, progress=False)
    return {"tokens": tokens_of(manifest), "session": started, "inside": engine.inside}


def queries(text: Path, out: Path) -> dict[str, Any]:
    import gristmill as gm

    engine = Both(session())
    gm.prepare(recipe(text, out, WHOLE), engine=engine, progress=False)
    return {"tokens": 0, "queries": engine.seen}


def sketch(text: Path, out: Path) -> dict[str, Any]:
    """What people write: a pandas UDF over Hugging Face's tokenizers, and an .npy file a partition."""
    from pyspark.sql.functions import pandas_udf

    from gristmill.tokenize.tokenizer import load_tokenizer

    began = time.perf_counter()
    spark = session()
    started = time.perf_counter() - began
    out.mkdir()
    (out / "tokenizer.json").write_text(load_tokenizer("gpt2").to_json())
    name, folder = str(out / "tokenizer.json"), str(out)

    @pandas_udf("array<int>")  # type: ignore[call-overload,untyped-decorator]
    def encode(texts: pd.Series) -> pd.Series:
        from tokenizers import Tokenizer

        known = Tokenizer.from_file(name)
        return pd.Series([encoding.ids for encoding in known.encode_batch(texts.tolist())])

    def save(number: int, rows: Iterator[Any]) -> Iterator[int]:
        ids = np.fromiter((i for row in rows for i in [*row["ids"], 50_256]), np.uint16)
        np.save(f"{folder}/part-{number:05d}.npy", ids)
        yield len(ids)

    files = [str(file) for file in sorted(text.iterdir())[::SKETCH_FILES]]
    rows = spark.read.json(files).select(encode("text").alias("ids"))
    tokens = sum(rows.rdd.mapPartitionsWithIndex(save).collect())
    return {"tokens": tokens, "session": started, "inside": 0.0, "bytes": sum(map(text_bytes, map(Path, files)))}


def tokens_of(manifest: Any) -> int:
    return sum(shard.tokens for shards in manifest.splits.values() for shard in shards)


LOCAL, SPARK, LOCAL_TOKENS, SPARK_TOKENS, SKETCH, QUERIES = (
    "this machine", "Spark", "this machine, tokenising only", "Spark, tokenising only", "the sketch", "queries",
)  # fmt: skip
CONTENDERS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    LOCAL: functools.partial(local, WHOLE),
    SPARK: functools.partial(on_spark, WHOLE),
    LOCAL_TOKENS: functools.partial(local, TOKENS_ONLY),
    SPARK_TOKENS: functools.partial(on_spark, TOKENS_ONLY),
    SKETCH: sketch,
    QUERIES: queries,
}


def run(name: str, text: Path, out: Path) -> dict[str, Any]:
    """A contender's figures; a session's start is told apart from what comes after it."""
    began = time.perf_counter()
    found = CONTENDERS[name](text, out)
    seconds, cpu = time.perf_counter() - began - found.get("session", 0.0), cpu_split()
    size = found.pop("bytes", None) or text_bytes(text)
    return {**found, "seconds": seconds, "mb_per_second": size / 1e6 / seconds, "cpu": cpu}


def in_process(name: str, text: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=DATA) as folder:
        command = [sys.executable, "-W", "ignore", __file__, "--task", name, str(text), str(Path(folder) / "out")]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def measure(rounds: int, text: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
    for number in range(rounds):
        for name in CONTENDERS:
            if name == QUERIES and number:
                continue
            print(f"round {number + 1}: {name}", file=sys.stderr)
            found[name].append(in_process(name, text))
    return found


def ratio(found: Mapping[str, Sequence[Mapping[str, Any]]], one: str, other: str) -> float:
    """The median over rounds of how much faster one is than the other, within a round."""
    pairs = zip(found[one], found[other], strict=True)
    return statistics.median(a["mb_per_second"] / b["mb_per_second"] for a, b in pairs)


def judge(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    half, times = ratio(found, SPARK, LOCAL), ratio(found, SPARK_TOKENS, SKETCH)
    return [
        {"target": "Spark at half of the rate of this machine or more", "measured": half, "met": half >= 0.5},
        {"target": "20 times the sketch, tokenising only", "measured": times, "met": times >= 20},
    ]


def report(results: Mapping[str, Any]) -> str:
    """The results as markdown."""
    contenders = {name: runs for name, runs in results["contenders"].items() if name != QUERIES}
    rows = [[name, *(_median(runs, key) for key in ("mb_per_second", "session")), *_split(runs)]
            for name, runs in contenders.items()]  # fmt: skip
    asked = results["contenders"][QUERIES][0]["queries"]
    wide = [[row["query"], f"{row['bytes'] / 1e6:,.1f}", f"{row['duckdb']:.2f}", f"{row['spark']:.2f}",
             str(row["jobs"]), str(row["files"])] for row in asked]  # fmt: skip
    answers = {True: "yes", False: "**no**"}
    targets = [[each["target"], f"{each['measured']:.2f}", answers[each["met"]]] for each in results["targets"]]
    size = results["text_bytes"] / 1e6
    return "\n".join([
        "# A recipe on Spark", "",
        f"{size:,.0f} MB of text, {CORES} cores, Spark as `local[{CORES}]`; medians of {results['rounds']} rounds in "
        "fresh processes, without the start of a session. The whole recipe has two filters, exact and near duplicates, "
        "gpt2 tokens and a store. The sketch has a pandas UDF, Hugging Face tokenizers and an .npy file a partition; "
        f"it gets one file of {SKETCH_FILES}, since its rate is the same for all. Processor seconds are those of Java, "
        "those inside of our jobs, the rest of Python's workers, and the driver's.", "",
        *table(["contender", "MB/s", "session s", "Java", "in jobs", "Python around them", "driver"], rows), "",
        "## Targets", "",
        *table(["target", "measured", "met"], targets), "",
        "## Queries", "",
        "Every query of the whole recipe by DuckDB on the driver and by Spark. The line between them is where Spark "
        f"becomes the quicker one; by default it is at {SMALL_QUERY >> 20} MiB that a query reads.", "",
        *table(["query", "MB read", "DuckDB s", "Spark s", "Spark jobs", "files"], wide), "",
        "## Machine and versions", "",
        *(f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()),
        *(f"- {name} {version(name)}" for name in ("gristmill", "pyspark", "tokenizers")), "",
    ])  # fmt: skip


def _median(runs: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [run[key] for run in runs if key in run]
    return f"{statistics.median(values):.2f}" if values else ""


def _split(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Processor seconds by whose they are."""
    jobs = [run.get("inside", 0.0) for run in runs]
    around = [run["cpu"]["workers"] - inside for run, inside in zip(runs, jobs, strict=True)]
    java, driver = ([run["cpu"][whose] for run in runs] for whose in ("java", "driver"))
    return [f"{statistics.median(values):.1f}" for values in (java, jobs, around, driver)]


def main() -> None:
    """Measure, write the results, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="how much text")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender runs")
    parser.add_argument("--quick", action="store_true", help="2 MB, once; nothing is written")
    parser.add_argument("--task", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        name, text, out = options.task
        print(json.dumps(run(name, Path(text), Path(out))), flush=True)
        os._exit(0)
    DATA.mkdir(parents=True, exist_ok=True)
    machine, rounds = facts(), 1 if options.quick else options.rounds
    text = Path(tempfile.mkdtemp(dir=DATA))
    try:
        make_text(text, 2 if options.quick else options.gigabytes * 1000)
        found = measure(rounds, text)
        results = {"contenders": found, "targets": judge(found), "rounds": rounds, "text_bytes": text_bytes(text),
                   "machine": machine | {"load_after": load()}}  # fmt: skip
    finally:
        shutil.rmtree(text)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "spark.json").write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "spark.md").write_text(report(results))
    print(report(results))


if __name__ == "__main__":
    main()
