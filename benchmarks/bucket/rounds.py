"""Runs over the bucket, side by side: each case once a round in a fresh process, in a new order each time."""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bucket.names import CACHE_VARIABLE
from contenders.registry import Entry, Setting
from harness.client import BENCHMARKS, ContenderError, WorkerProcess
from harness.corpus import Corpus

Figures = dict[str, Any]
Say = Callable[[str], None]
_PROBE_SECONDS = 300


def probe(name: str, **arguments: Any) -> Figures:
    """What `bucket.probe` measures in a process of its own."""
    paths = os.pathsep.join(filter(None, (str(BENCHMARKS), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "bucket.probe", json.dumps([name, arguments])],
        env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=_PROBE_SECONDS,
    )  # fmt: skip
    if done.returncode:
        last = done.stderr.strip().splitlines()
        return {"error": last[-1] if last else f"ended with {done.returncode}"}
    figures: Figures = json.loads(done.stdout)
    return figures


@dataclass
class Case:
    """Something to measure: `run` gives the figures of one round."""

    name: str
    run: Callable[[], Figures]
    figures: list[Figures] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        """What went wrong first."""
        return next((each["error"] for each in self.figures if "error" in each), None)

    def values(self, of: Callable[[Figures], float]) -> list[float]:
        """A figure of every round; none if a round failed."""
        return [] if self.error else [of(each) for each in self.figures]

    def median(self, of: Callable[[Figures], float]) -> float | None:
        """The median of a figure."""
        values = self.values(of)
        return statistics.median(values) if values else None


def measure(cases: list[Case], rounds: int, say: Say) -> list[Case]:
    """Every case in every round."""
    for number in range(rounds):
        for case in random.Random(number).sample(cases, len(cases)):
            say(f"round {number + 1} of {rounds}: {case.name}")
            case.figures.append(case.run())
    return cases


def rate(figures: Figures) -> float:
    """Bytes a second."""
    return float(figures["bytes"] / figures["seconds"])


def cpu(figures: Figures) -> float:
    """Seconds of a processor that the reading process took for 10^9 bytes."""
    return float(1e9 * figures["cpu_seconds"] / figures["bytes"])


def ratio(case: Case | None, other: Case | None, of: Callable[[Figures], float] = rate) -> float | None:
    """The median of the ratios within a round: what slows the machine down slows both."""
    if case is None or other is None or case.error or other.error:
        return None
    return statistics.median(a / b for a, b in zip(case.values(of), other.values(of), strict=True))


def fastest(cases: list[Case]) -> Case | None:
    """The one with the highest median; None if all failed."""
    ranked = [(rate_, i) for i, case in enumerate(cases) if (rate_ := case.median(rate)) is not None]
    return cases[max(ranked)[1]] if ranked else None


@dataclass(frozen=True)
class Contest:
    """A contender in one setting, that reads an epoch with an empty cache and then one with what it left there."""

    entry: Entry
    setting: Setting
    corpus: Corpus
    seconds: float

    def __str__(self) -> str:
        """As the report shows it."""
        return f"{self.entry.name}, {self.setting}"

    def run(self) -> Figures:
        """Both epochs, each in a fresh process: {"cold": ..., "warm": ...}, or an error."""
        with tempfile.TemporaryDirectory(prefix="benchmark-cache-") as folder:
            os.environ[CACHE_VARIABLE] = folder
            try:
                return {"cold": self._epoch(None), "warm": self._epoch(self.seconds)}
            except ContenderError as error:
                return {"error": str(error).strip().rpartition("\n")[2]}  # a worker's has a traceback above

    def _epoch(self, seconds: float | None) -> Figures:
        """A cold epoch is read to its end, so that the cache is whole."""
        with WorkerProcess(self.entry, self.setting, self.corpus) as worker:
            version = worker.ask("hello", distribution=self.entry.distribution)["version"]
            figures = worker.ask("epoch", seconds=seconds or 1e9)
        return {**figures, "bytes": 2 * figures["tokens"], "version": version}


def split(cases: list[Case], state: str) -> list[Case]:
    """The cold or the warm half of contests."""
    return [Case(case.name, case.run, [each.get(state, each) for each in case.figures]) for case in cases]


def prepare(entry: Entry, corpus: Corpus) -> str | None:
    """Let a contender write its files; the error, if it cannot."""
    try:
        with WorkerProcess(entry, Setting(), corpus) as worker:
            worker.ask("prepare")
    except ContenderError as error:
        return str(error)
    return None


def as_data(cases: list[Case]) -> dict[str, Any]:
    """For the results file."""
    return {case.name: case.figures for case in cases}
