"""The process that holds one contender: commands come as JSON lines on stdin, replies go to stdout."""

import functools
import hashlib
import importlib
import json
import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from contenders.base import Contender, NoStateError
from contenders.registry import Setting
from harness.corpus import Corpus
from harness.processes import cpu_seconds, disk_bytes, memory_bytes

Reply = dict[str, Any]


class Worker:
    """Carries out the driver's commands; each public method is one."""

    def __init__(self, module: str, corpus: Corpus, setting: Setting) -> None:
        self.corpus, self.setting = corpus, setting
        start = time.perf_counter()
        self.kind: type[Contender] = importlib.import_module(f"contenders.{module}").CONTENDER
        self.import_seconds = time.perf_counter() - start
        _limit_torch()
        self.contender: Contender
        self.batches: Iterator[Any]

    def hello(self, distribution: str) -> Reply:
        """How long the import took, and what was imported."""
        return {"import_seconds": self.import_seconds, "version": _version(distribution)}

    def prepare(self) -> Reply:
        """Write the contender's files, untimed."""
        self.kind.prepare(self.corpus)
        return {}

    def open(self, check: bool = True) -> Reply:
        """Construct the loader and take its first batch; checking it reads the whole corpus."""
        start = time.perf_counter()
        self.contender = self.kind(self.corpus, self.setting)
        batch = self._first()
        seconds = time.perf_counter() - start
        if check:
            self._check(np.asarray(batch))
        return {"seconds": seconds}

    def measure(self, warm_up: float, seconds: float) -> Reply:
        """Take batches for some seconds, after an untimed warm-up."""
        self._take(warm_up)
        cpu = cpu_seconds(os.getpid())
        count, elapsed = self._take(seconds)
        cpu = cpu_seconds(os.getpid()) - cpu
        return {"tokens": count * math.prod(self.contender.shape), "seconds": elapsed, "cpu_seconds": cpu}

    def epoch(self, seconds: float) -> Reply:
        """Construct the loader and take its batches until the epoch ends, or for some seconds; all of it counts."""
        start, cpu = time.perf_counter(), cpu_seconds(os.getpid())
        self.contender, elapsed = self.kind(self.corpus, self.setting), []
        for _ in self.contender.epoch():
            elapsed.append(time.perf_counter() - start)
            if elapsed[-1] > seconds:
                break
        tokens, cpu = len(elapsed) * math.prod(self.contender.shape), cpu_seconds(os.getpid()) - cpu
        return {"first_seconds": elapsed[0], "seconds": elapsed[-1], "tokens": tokens, "cpu_seconds": cpu}

    def step(self) -> Reply:
        """Take one batch, and say what the process tree has read from disk so far."""
        next(self.batches)
        return {"disk_bytes": disk_bytes(os.getpid())}

    def memory(self) -> Reply:
        """What the process tree holds now."""
        return memory_bytes(os.getpid())

    def save(self, path: str, after: int) -> Reply:
        """Save the state after so many more batches, and say what the next batch is."""
        for _ in range(after):
            next(self.batches)
        try:
            state = pickle.dumps(self.contender.state())
        except NoStateError:
            return {"bytes": None}
        Path(path).write_bytes(state)
        return {"bytes": len(state), "digest": _digest(next(self.batches))}

    def resume(self, path: str) -> Reply:
        """Construct the loader, restore the state, and take the next batch."""
        start = time.perf_counter()
        state = pickle.loads(Path(path).read_bytes())
        self.contender = self.kind(self.corpus, self.setting)
        self.contender.restore(state)
        batch = self._first()
        return {"seconds": time.perf_counter() - start, "digest": _digest(batch)}

    def _first(self) -> Any:
        self.batches = self.contender.batches()
        return next(self.batches)

    def _take(self, seconds: float) -> tuple[int, float]:
        batches, clock, count = self.batches, time.perf_counter, 0
        start = now = clock()
        while now - start < seconds:
            next(batches)
            count += 1
            now = clock()
        return count, now - start

    def _check(self, batch: np.ndarray) -> None:
        """Refuse a contender that does not deliver what is measured."""
        if batch.shape != self.contender.shape or batch.dtype != np.int64:
            raise ValueError(f"the first batch is {batch.dtype} {batch.shape}")
        if self.contender.windowed and not _is_window(batch[-1], self.corpus.windows()):
            raise ValueError("the last row of the first batch is no window of the corpus")


def _is_window(row: np.ndarray, windows: np.ndarray) -> bool:
    """Whether the row is one of the corpus's windows; few share their first tokens with another."""
    candidates = np.flatnonzero((windows[:, :8] == row[:8]).all(axis=1))
    return any(np.array_equal(windows[i], row) for i in candidates)


def _digest(batch: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(batch).tobytes()).hexdigest()


def _limit_torch() -> None:
    """One thread for torch where the contender brought it along: the loaders are compared, not BLAS."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def _private_stdout() -> TextIO:
    """Keep stdout for replies: whatever a contender or its children print goes to stderr."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return replies


def _answer(worker: Callable[[], Worker], name: str, arguments: Reply) -> Reply:
    try:
        reply: Reply = getattr(worker(), name)(**arguments)
        return reply
    # Whatever a foreign library raises is reported for that contender, and the others go on.
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main(module: str, root: str, workers: str, threads: str) -> None:
    """Answer commands until stdin ends."""
    replies = _private_stdout()
    corpus, setting = Corpus(Path(root)), Setting(int(workers), int(threads))
    # Made with the first command, so that a failing import is an answer like any other.
    worker = functools.cache(lambda: Worker(module, corpus, setting))
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(_answer(worker, name, arguments)), file=replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
