"""Processes of ours beside this one: spawned, or forked by a command; deaf to Ctrl-C, and gone when this one is."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import ParamSpec, TypeVar

from gristmill.core.watched import end_with, may_fork

A = ParamSpec("A")
R = TypeVar("R")
# What Linux gives to anybody.
_PIPE_BYTES = 1 << 20
# What a worker that is forked hears of once it is one, or never.
_TOLD = (signal.SIGINT, signal.SIGTERM)


class Processes:
    """Up to `workers` processes, which are started when there is work and keep what they load."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def start(self, function: Callable[[], None]) -> None:
        """Have `function` called by each of them, or here, before they are forked and inherit what it has loaded."""
        if self._pool is None and may_fork():
            function()
            if may_fork():  # still: what it has loaded brought no threads
                self._fork()
                return
        for _ in range(self._workers):
            self.submit(function)

    def _fork(self) -> None:
        """Have copies of this process, with all that it has loaded."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)
        try:
            self._open("fork").submit(os.getpid)  # which starts all of them
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _open(self, way: str) -> ProcessPoolExecutor:
        context = multiprocessing.get_context(way)
        self._pool = ProcessPoolExecutor(self._workers, context, initializer=_begin, initargs=(os.getpid(),))
        _widen(self._pool)
        return self._pool

    def submit(self, function: Callable[A, R], *arguments: A.args, **named: A.kwargs) -> Future[R]:
        """Hand work to a process, which may be started for it."""
        # spawn: a fork here would inherit the locks of our caller's threads, and of Arrow's.
        pool = self._pool or self._open("spawn")
        with deaf_children():
            return pool.submit(function, *arguments, **named)

    def close(self) -> None:
        """End the processes, at once."""
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            self._pool = None


def _begin(parent: int) -> None:
    """Be a worker: what a fork has inherited of its command's answers to signals ends here."""
    end_with(parent)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _widen(pool: ProcessPoolExecutor) -> None:
    """Let a long answer into the pipe at once, where the system can: else its process waits for a thread of ours.

    That takes 64 KiB at a time, and between two of them may wait 5 ms for Python's lock.
    """
    with suppress(AttributeError, OSError):
        fcntl.fcntl(pool._result_queue._reader.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)  # type: ignore[attr-defined]


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that are started in the block never hear of Ctrl-C, not even while they import: the parent does."""
    resource_tracker.ensure_running()  # which lets signals through again once it has started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
