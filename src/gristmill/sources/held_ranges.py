"""Ranges of a file on another machine: asked for side by side, and held for readers that jump about in them."""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gristmill.places.base import Place, read_at
from gristmill.places.ranges import spans_of
from gristmill.places.streams import Positioned, pool_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def bytes_at(place: Place, start: int, size: int) -> bytes:
    """A range by one request, which brings no more; an OSError if the file was replaced since it was pinned."""
    with place.open(buffered=False) as file:
        return read_at(file, start, size)


class HeldRanges(Positioned):
    """A file of `size` bytes of which some (start, size) are held, near ones by one request; others are asked for."""

    def __init__(self, place: Place, size: int, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__(size)
        self._place = place
        runs = np.array([(start, count, 0) for start, count in ranges if count], np.int64).reshape(-1, 3)
        spans = [(first, stop - first) for first, stop, _ in spans_of(runs, 1)]
        self._starts = [start for start, _ in spans]
        if len(spans) < 2:
            self._parts = [bytes_at(place, *span) for span in spans]
        else:
            self._parts = list(pool_of(os.getpid()).map(lambda span: bytes_at(place, *span), spans))

    def readinto(self, into: WriteableBuffer) -> int:
        view = memoryview(into).cast("B")[: max(self._size - self._at, 0)]
        done = 0
        while done < len(view):
            found = self._found(len(view) - done)
            view[done : done + len(found)] = found
            done, self._at = done + len(found), self._at + len(found)
        return done

    def _found(self, size: int) -> bytes | memoryview:
        """What is held from here on, `size` bytes or fewer; all of them where nothing is."""
        i = bisect.bisect_right(self._starts, self._at) - 1
        if i >= 0 and (begin := self._at - self._starts[i]) < len(self._parts[i]):
            return memoryview(self._parts[i])[begin : begin + size]
        return bytes_at(self._place, self._at, size)
