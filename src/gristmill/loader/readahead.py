"""Batches before they are asked for: threads build groups of steps in order, within a bound of memory.

The work of a group is numpy and compiled code that releases the GIL, so no processes are needed. Handing over a
group costs about as much as handing over a batch, which is why small batches travel in groups.
"""

from __future__ import annotations

import collections
import threading
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

    def _fill(self) -> None:
        while len(self._pending) < self._depth:
            group = next(self._groups, None)
            if group is None:
                return
            self._pending.append(self._pool.submit(self._run, group))

    def _run(self, group: range) -> list[Item]:
        return [] if self._stop.is_set() else self._build(group)

    def __iter__(self) -> Iterator[Item]:
        """The items; while those of one group are taken, the next ones are built."""
        self._fill()
        while self._pending:
            built = collections.deque(self._pending.popleft().result())
            self._fill()
            while built:  # and what is taken is held here no longer
                yield built.popleft()

    def ready(self) -> list[Item]:
        """What could be had now without waiting, beyond the group that is being taken."""
        done = [future for future in self._pending if future.done() and not future.exception()]
        return [item for future in done for item in future.result()]

    def close(self, wait: bool = False) -> None:
        """Stop the threads; without `wait` they may still be ending what they are building."""
        self._stop.set()
        self._pool.shutdown(wait=wait, cancel_futures=True)
