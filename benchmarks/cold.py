"""Loading from a cold page cache: Gristmill and the bare gather beside what the disk alone gives.

    python benchmarks/cold.py

Results go to benchmarks/results/cold.json and cold.md.
"""

import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contenders.registry import ENTRIES, YARDSTICK
from harness import disk
from harness.client import BENCHMARKS, ContenderError, WorkerProcess, end_with_workers
from harness.corpus import TOKENS_PER_BATCH, Corpus
from harness.machine import facts, load, read_ahead_kib
from harness.pagecache import evict, resident
from harness.progress import Progress
from harness.render import table

CONTENDERS = (YARDSTICK, "gristmill")
RUNS = 3
SECONDS = 5.0
BATCH_BYTES = 2 * TOKENS_PER_BATCH

# With a read-ahead of some MiB, the 64 faults of a single batch fetch half of a small corpus, and all that
# follows is warm. So the file is 20 times as large, and a run stops when a quarter of it has been fetched.
COPIES = 20
COLD_SHARE = 0.25

Probe = Callable[[Path], float]
PROBES: dict[str, Probe] = {
    "disk, sequential": lambda path: disk.sequential(path, SECONDS),
    "disk, random 4 KiB, depth 1": lambda path: disk.random_pages(path, SECONDS, 1),
    "disk, random 4 KiB, depth 8": lambda path: disk.random_pages(path, SECONDS, 8),
}


@dataclasses.dataclass
class Cold:
    """The figures of one way to read, one entry a run."""

    bytes_per_second: list[float] = dataclasses.field(default_factory=list)
    first_batch_seconds: list[float] = dataclasses.field(default_factory=list)
    fetched_per_byte: list[float] = dataclasses.field(default_factory=list)
    resident_before: list[float | None] = dataclasses.field(default_factory=list)
    resident_after: list[float | None] = dataclasses.field(default_factory=list)
    error: str | None = None


def main() -> int:
    """Measure, write the results, and print the report; 1 when a contender failed."""
    end_with_workers()
    corpus = Corpus(BENCHMARKS / "data")
    machine = facts()
    with Progress() as progress:
        progress.say("making the corpus")
        corpus.make()
        measured = _measure(corpus.repeated(COPIES), progress)
    machine |= {"load_after": load(), "read_ahead_kib": read_ahead_kib(corpus.tokens_path)}
    report = _write(measured, machine)
    print(report)
    return int(any(cold.error for cold in measured.values()))


def _measure(corpus: Corpus, progress: Progress) -> dict[str, Cold]:
    """Probes and contenders in turns, each time from a cold file."""
    loaders = {f"{e.name}, {s}": (e, s) for e in ENTRIES if e.name in CONTENDERS for s in e.settings}
    measured = {name: Cold() for name in (*PROBES, *loaders)}
    for number in range(RUNS):
        progress.say(f"run {number + 1} of {RUNS}")
        for name, probe in PROBES.items():
            with _ColdFile(corpus.tokens_path, measured[name]):
                measured[name].bytes_per_second.append(probe(corpus.tokens_path))
        for name, (entry, setting) in loaders.items():
            with _ColdFile(corpus.tokens_path, measured[name]):
                _load(measured[name], WorkerProcess(entry, setting, corpus), corpus)
    return measured


class _ColdFile:
    """Evicts a file, and notes how much of it is in memory before and after."""

    def __init__(self, path: Path, cold: Cold) -> None:
        self.path, self.cold = path, cold

    def __enter__(self) -> None:
        evict(self.path)
        self.cold.resident_before.append(resident(self.path))

    def __exit__(self, *error: object) -> None:
        self.cold.resident_after.append(resident(self.path))


def _load(cold: Cold, worker: WorkerProcess, corpus: Corpus) -> None:
    try:
        with worker:
            worker.ask("hello", distribution=worker.entry.distribution)  # the import is not timed
            _serve(cold, worker, COLD_SHARE * corpus.tokens_path.stat().st_size)
    except ContenderError as error:
        cold.error = str(error)


def _serve(cold: Cold, worker: WorkerProcess, enough_bytes: float) -> None:
    """Construct the loader and take batches while the file is still cold; all of it counts."""
    start = time.perf_counter()
    first = worker.ask("open", check=False)["seconds"]
    batches, elapsed, fetched = 1, first, 0
    while elapsed < SECONDS and fetched < enough_bytes:
        fetched = worker.ask("step")["disk_bytes"]
        batches, elapsed = batches + 1, time.perf_counter() - start
    cold.first_batch_seconds.append(first)
    cold.bytes_per_second.append(batches * BATCH_BYTES / elapsed)
    cold.fetched_per_byte.append(fetched / (batches * BATCH_BYTES))


def _write(measured: dict[str, Cold], machine: dict[str, Any]) -> str:
    results = {"machine": machine, "cold": {name: dataclasses.asdict(c) for name, c in measured.items()}}
    report = _report(results)
    directory = BENCHMARKS / "results"
    directory.mkdir(exist_ok=True)
    (directory / "cold.json").write_text(json.dumps(results, indent=1) + "\n")
    (directory / "cold.md").write_text(report)
    return report


def _report(results: dict[str, Any]) -> str:
    head = [
        "reading",
        "MB/s",
        "Mtok/s",
        "first batch ms",
        "fetched for each byte",
        "in memory before",
        "after",
    ]
    rows = [_row(name, cold) for name, cold in results["cold"].items()]
    machine = [f"- {key.replace('_', ' ')}: {value}" for key, value in results["machine"].items()]
    lines = ["# Loading from a cold page cache", "", _introduction(results["cold"]), "", *table(head, rows)]
    return "\n".join([*lines, "", "## Machine", "", *machine, ""])


def _introduction(measured: dict[str, dict[str, Any]]) -> str:
    before = [share for cold in measured.values() for share in cold["resident_before"]]
    if None in before:
        shown = "Whether the eviction worked cannot be shown here: mincore is refused."
    else:
        shown = f"mincore found at most {max(before):.1%} of the pages in memory before a run."
    return (
        f"Medians of {RUNS} runs of up to {SECONDS:g} s, each after the file's pages were evicted. {shown} "
        f"A loader's time runs from its construction, until {COLD_SHARE:.0%} of the file was fetched. "
        "Only this system's cache is emptied: the host of a virtual machine may still hold the data."
    )


def _row(name: str, cold: dict[str, Any]) -> list[str]:
    if cold["error"]:
        return [name, f"failed: {cold['error']}", *["-"] * 5]
    rate = statistics.median(cold["bytes_per_second"])
    return [
        name,
        f"{rate / 1e6:,.1f}",
        f"{rate / 2e6:,.2f}",
        _median(cold["first_batch_seconds"], lambda seconds: f"{seconds * 1e3:.1f}"),
        _median(cold["fetched_per_byte"], lambda times: f"{times:.1f}"),
        _median(cold["resident_before"], lambda share: f"{share:.1%}"),
        _median(cold["resident_after"], lambda share: f"{share:.1%}"),
    ]


def _median(values: list[float | None], show: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return show(statistics.median(known)) if known else "-"


if __name__ == "__main__":
    sys.exit(main())
