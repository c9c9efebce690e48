"""Batches before they are asked for: threads build groups of steps in order, within a bound of memory.

The work of a group is numpy and compiled code that releases the GIL, so no processes are needed. Handing over a
group costs about as much as handing over a batch, which is why small batches travel in groups.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")


class ReadAhead(Generic[Item]):
    """The items of `groups` in order, each group built by `build` on one of `threads` threads, `depth` groups ahead."""

    def __init__(self, build: Callable[[range], list[Item]], groups: Iterator[range], threads: int, depth: int) -> None:
        self._build, self._groups, self._depth = build, groups, depth
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="gristmill-read")
        self._pending: collections.deque[Future[list[Item]]] = collections.deque()
        self._ready: collections.deque[Item] = collections.deque()
        self.waited = 0.0

    def _fill(self) -> None:
        while len(self._pending) < self._depth:
            group = next(self._groups, None)
            if group is None:
                return
            self._pending.append(self._pool.submit(self._run, group))

    def _run(self, group: range) -> list[Item]:
        return [] if self._stop.is_set() else self._build(group)

    def next(self) -> Item | None:
        """The next item, or None at the end; the time spent waiting for it is added to `waited`."""
        while not self._ready:
            self._fill()
            if not self._pending:
                return None
            began = time.perf_counter()
            self._ready.extend(self._pending.popleft().result())
            self.waited += time.perf_counter() - began
            self._fill()
        return self._ready.popleft()

    def ready(self) -> int:
        """Items that could be had now without waiting."""
        done = [future for future in self._pending if future.done() and not future.exception()]
        return len(self._ready) + sum(len(future.result()) for future in done)

    def close(self) -> None:
        """Stop the threads without waiting for what they are building."""
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
