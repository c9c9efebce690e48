"""Bytes before they are needed: the extents of coming steps, asked for in the order of first use, up to a bound.

No thread waits here. Whenever readers have come further, the threads that fetch also look what the next steps touch;
once enough is on its way or held, they end.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterator

from gristmill.core.arrays import Ints
from gristmill.core.locks import Lock
from gristmill.store.frames import Frames


class FetchAhead:
    """Has `frames` ask for what the steps of `groups` touch, while no more than `most` bytes are ahead of readers."""

    def __init__(
        self, frames: Frames, groups: Iterator[range], touched: Callable[[range], tuple[Ints, Ints]], most: int
    ) -> None:
        self._frames, self._groups, self._touched, self._most = frames, groups, touched, most
        self._lock = Lock()
        self._ahead: collections.deque[tuple[int, int]] = collections.deque()
        self._bytes, self._reached, self._asking, self._ended = 0, 0, False, False
        frames.supply.enter()
        self._wake()

    def reached(self, step: int) -> None:
        """Readers are about to take `step`: what the steps before it touch is ahead no longer."""
        with self._lock:
            self._reached = max(self._reached, step)
            while self._ahead and self._ahead[0][0] <= step:
                self._bytes -= self._ahead.popleft()[1]
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._asking or not self._wanting():
                return
            self._asking = True
        self._frames.supply.then(self._ask)

    def _wanting(self) -> bool:
        return not self._ended and self._bytes < self._most and threading.main_thread().is_alive()

    def _ask(self) -> None:
        """Ask for one group after the other until enough is ahead."""
        try:
            while self._wanting():
                steps = next(self._groups, None)
                if steps is None:
                    self._ended = True
                    break
                if steps[-1] < self._reached:  # readers were quicker
                    continue
                size = self._frames.ask_ahead(*self._touched(steps))
                with self._lock:
                    self._ahead.append((steps[-1] + 1, size))
                    self._bytes += size
        except Exception:  # whoever needs these steps meets it again, where it can be told
            self._ended = True
        finally:
            self._asking = False

    def close(self, wait: bool = False) -> None:
        """Ask for nothing more; with `wait`, until what is under way has come and its threads have ended."""
        self._ended = True
        self._frames.supply.leave(wait)
