"""One machine: a pool of processes for narrow work, DuckDB for wide work."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import ParamSpec

from gristmill.core.errors import EngineError
from gristmill.core.watched import end_with
from gristmill.engine.base import Engine, P, R
from gristmill.engine.duck import Duck
from gristmill.engine.inline import InlineEngine

A = ParamSpec("A")


def local_engine(workers: int, memory: int, scratch: Path) -> Engine:
    """This machine: processes, or, where one worker is enough, none."""
    return LocalEngine(workers, memory, scratch) if workers > 1 else InlineEngine(memory, scratch)


class LocalEngine(Duck):
    """`workers` processes from the first map to `close`, which keep what they load; as many threads of DuckDB."""

    def __init__(self, workers: int, memory: int, scratch: Path) -> None:
        super().__init__(memory, scratch, threads=workers)
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def start(self, function: Callable[[], None]) -> None:
        """Start the processes, each of which calls `function` while the caller goes on."""
        for _ in range(self._workers):
            self._submit(function)

    def _submit(self, function: Callable[A, R], *arguments: A.args, **named: A.kwargs) -> Future[R]:
        """Hand work to a process, which may be started for it."""
        if self._pool is None:
            # spawn: a fork would inherit the locks of our caller's threads, and of Arrow's.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, context, initializer=end_with, initargs=(os.getpid(),))
        resource_tracker.ensure_running()  # which lets signals through again once it has started: not in the block
        with _deaf_children():
            return self._pool.submit(function, *arguments, **named)

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        """`function` of each part in the processes, at most two parts a worker ahead of what was taken."""
        waiting: deque[Future[R]] = deque()
        rest = iter(parts)
        try:
            for part in rest:
                waiting.append(self._submit(function, part))
                if len(waiting) >= 2 * self._workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise EngineError(
                "A worker process died, perhaps for want of memory: run the same command again, it goes on from "
                "the last finished part; fewer workers need less memory.",
                arguments="workers",
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the processes, at once: what they were doing is done again, and whole, by the next run."""
        super().close()
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            self._pool = None


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that are started in the block never hear of Ctrl-C, not even while they import: the parent does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
