"""Throughput: all contenders in all settings, open side by side, measured in turns."""

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from contenders.registry import Entry, Setting
from harness.client import ContenderError, WorkerProcess
from harness.corpus import Corpus
from harness.progress import Progress


@dataclass(frozen=True)
class Timing:
    """How long and how often things are measured."""

    rounds: int
    seconds: float  # of one contender's turn in a round
    warm_up: float  # before each turn, untimed: drains what was read ahead before the pause
    fresh: int  # how many fresh processes give one figure of starting


FULL = Timing(rounds=7, seconds=1.5, warm_up=0.3, fresh=3)
QUICK = Timing(rounds=3, seconds=0.5, warm_up=0.2, fresh=1)


@dataclass
class Run:
    """What the rounds gave for one contender in one setting; the i-th rate belongs to the i-th round."""

    entry: Entry
    setting: Setting
    rates: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0
    tokens: int = 0
    error: str | None = None

    @property
    def median(self) -> float:
        """Tokens a second; a run that failed counts as the slowest."""
        return statistics.median(self.rates) if self.rates and not self.error else 0.0


class Field:
    """The running workers of all contenders, of which only one is awake at any time."""

    def __init__(self, entries: list[Entry], corpus: Corpus, progress: Progress) -> None:
        self.corpus, self.progress = corpus, progress
        self.runs = [Run(entry, setting) for entry in entries for setting in entry.settings]
        self.workers: dict[int, WorkerProcess] = {}

    def measure(self, timing: Timing) -> list[Run]:
        """Open everyone, then measure round after round, each in another order."""
        for index in range(len(self.runs)):
            self._turn(index, "opening", self._open)
        for number in range(timing.rounds):
            order = random.Random(number).sample(range(len(self.runs)), len(self.runs))
            for index in order:
                if index in self.workers:
                    self._turn(index, f"round {number + 1} of {timing.rounds}", self._measure, timing)
        return self.runs

    def __enter__(self) -> Self:
        """Give the field itself; workers start in `measure`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every worker that still runs."""
        for worker in self.workers.values():
            worker.close()

    def _turn(self, index: int, what: str, act: Callable[..., None], *arguments: Any) -> None:
        run = self.runs[index]
        self.progress.say(f"{what}: {run.entry.name}, {run.setting}")
        try:
            act(index, *arguments)
        except ContenderError as error:
            run.error = str(error)
            if worker := self.workers.pop(index, None):
                worker.close()

    def _open(self, index: int) -> None:
        run = self.runs[index]
        worker = self.workers[index] = WorkerProcess(run.entry, run.setting, self.corpus)
        worker.ask("open")
        worker.pause()

    def _measure(self, index: int, timing: Timing) -> None:
        run, worker = self.runs[index], self.workers[index]
        worker.wake()
        reply = worker.ask("measure", warm_up=timing.warm_up, seconds=timing.seconds)
        worker.pause()
        run.rates.append(reply["tokens"] / reply["seconds"])
        run.tokens += reply["tokens"]
        run.cpu_seconds += reply["cpu_seconds"]
