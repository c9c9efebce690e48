"""Processes of ours beside this one: spawned, deaf to Ctrl-C, and gone when this one is."""

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

from gristmill.core.watched import end_with

A = ParamSpec("A")
R = TypeVar("R")
# What Linux gives to anybody.
_PIPE_BYTES = 1 << 20


class Processes:
    """Up to `workers` processes, which are started when there is work and keep what they load."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, function: Callable[A, R], *arguments: A.args, **named: A.kwargs) -> Future[R]:
        """Hand work to a process, which may be started for it."""
        if self._pool is None:
            # spawn: a fork would inherit the locks of our caller's threads, and of Arrow's.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, context, initializer=end_with, initargs=(os.getpid(),))
            _widen(self._pool)
        with deaf_children():
            return self._pool.submit(function, *arguments, **named)

    def close(self) -> None:
        """End the processes, at once."""
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            self._pool = None


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
