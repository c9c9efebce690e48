"""Bytes before they are needed: the extents of coming steps, asked for in the order of first use, up to a bound.

No thread waits here. Whenever readers have come further, the threads that fetch also look what the next steps touch;
once enough is on its way or held, they end. What they found out about a group, its readers are given: it is found for
several groups at once, which costs little more than to find it for one.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.locks import Lock
from gristmill.store.frames import Frames

# Groups ahead of readers, where nothing or little of them has to come: what is held may be all that a plan ever reads.
_GROUPS = 64
Found = TypeVar("Found")


class Placed(NamedTuple, Generic[Found]):
    """What was found out about some steps, and the places among them of those that it is asked for."""

    found: Found
    places: range


class FetchAhead(Generic[Found]):
    """Has `frames` ask for what the steps of groups touch, while no more than `most` bytes are ahead of readers.

    `lists` are the groups, without a gap between those of a list. `locate` finds out where the tokens of steps lie,
    `touched` which extents these are in the order of first use, and the place of the step that uses each first.
    """

    def __init__(
        self,
        frames: Frames,
        lists: Iterator[list[range]],
        locate: Callable[[range], Found],
        touched: Callable[[Found], tuple[Ints, Ints]],
        most: int,
    ) -> None:
        self._frames, self._lists, self._locate, self._touched, self._most = frames, lists, locate, touched, most
        self._lock, self._groups = Lock(), self._located()
        self._found: dict[range, Placed[Found]] = {}
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

    def located(self, steps: range) -> Placed[Found]:
        """Where the tokens of a group lie, which may be known by now; it is told once."""
        with self._lock:
            placed = self._found.pop(steps, None)
        return placed or Placed(self._locate(steps), range(len(steps)))

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
                group = next(self._groups, None)
                if group is None:
                    self._ended = True
                    break
                steps, placed, extents = group
                size = self._frames.ask_ahead(extents)
                with self._lock:
                    if steps.start >= self._reached:
                        self._found[steps] = placed
                    self._ahead.append((steps[-1] + 1, size))
                    self._bytes += size
        except Exception:  # whoever needs these steps meets it again, where it can be told
            self._ended = True
        finally:
            self._asking = False

    def _located(self) -> Iterator[tuple[range, Placed[Found], Ints]]:
        """Each group that readers have not passed yet, with what they are given of it and what it needs first."""
        for groups in self._lists:
            left = [group for group in groups if group[-1] >= self._reached]
            if not left:
                continue
            found = self._locate(range(left[0].start, left[-1].stop, left[0].step))
            extents, steps = self._touched(found)
            edges = np.searchsorted(steps, np.cumsum([0, *map(len, left)])).tolist()
            first = 0
            for i, group in enumerate(left):
                if group[-1] >= self._reached:
                    yield group, Placed(found, range(first, first + len(group))), extents[edges[i] : edges[i + 1]]
                first += len(group)

    def close(self, wait: bool = False) -> None:
        """Ask for nothing more; with `wait`, until what is under way has come and its threads have ended."""
        self._ended = True
        self._frames.supply.leave(wait)
