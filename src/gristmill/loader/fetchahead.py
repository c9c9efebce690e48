"""Bytes before they are needed: the extents of coming steps, asked for in the order of first use, up to a bound.

No thread waits here. Whenever readers have come further, the threads that fetch also look what the next steps touch;
once enough is on its way or held, they end. What they found out about a group, its readers are given.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from gristmill.core.arrays import Ints
from gristmill.core.locks import Lock
from gristmill.store.frames import Frames

# Groups ahead of readers, where nothing or little of them has to come: what is held may be all that a plan ever reads.
_GROUPS = 64
Found = TypeVar("Found")


class FetchAhead(Generic[Found]):
    """Has `frames` ask for what the steps of `groups` touch, while no more than `most` bytes are ahead of readers.

    `locate` finds out where the tokens of a group lie, `touched` which extents these are.
    """

    def __init__(
        self,
        frames: Frames,
        groups: Iterator[range],
        locate: Callable[[range], Found],
        touched: Callable[[Found], Ints],
        most: int,
    ) -> None:
        self._frames, self._groups, self._locate, self._touched, self._most = frames, groups, locate, touched, most
        self._lock = Lock()
        self._found: dict[range, Found] = {}
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
            self._found = {steps: found for steps, found in self._found.items() if steps.start >= step}
        self._wake()

    def located(self, steps: range) -> Found:
        """Where the tokens of a group lie, which may be known by now; it is told once."""
        with self._lock:
            found = self._found.pop(steps, None)
        return self._locate(steps) if found is None else found

    def _wake(self) -> None:
        with self._lock:
            if self._asking or not self._wanting():
                return
            self._asking = True
        self._frames.supply.then(self._ask)

    def _wanting(self) -> bool:
        enough = self._bytes >= self._most or len(self._ahead) >= _GROUPS
        return not self._ended and not enough and threading.main_thread().is_alive()

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
                found = self._locate(steps)
                size = self._frames.ask_ahead(self._touched(found))
                with self._lock:
                    if steps.start >= self._reached:
                        self._found[steps] = found
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
