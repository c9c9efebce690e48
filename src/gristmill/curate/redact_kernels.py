"""Where personal data might be, compiled. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry, maker
from gristmill.core.kernels.memory import copy, empty, filled
from gristmill.core.kernels.texts import TEXTS
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.core.kernels.utf8 import character_start, next_start

# What a byte is to a pattern: INSIDE of what it can match, the ANCHOR that is looked for, what must be AFTER it.
INSIDE, ANCHOR, AFTER = 1, 2, 4


@compiled
def _window(data: Any, at: int, begin: int, end: int, roles: Any) -> Any:
    """The longest stretch around `at` that a match can lie in, and how many anchors it has."""
    first, anchors = at, 0
    while first > begin and roles[data[first - 1]] & INSIDE:
        first -= 1
    last = at
    while last < end and roles[data[last]] & INSIDE:
        anchored = last + 1 < end and roles[data[last]] & ANCHOR and roles[data[last + 1]] & AFTER
        anchors += 1 if anchored else 0
        last += 1
    return first, last, anchors


@compiled
def _with_context(data: Any, first: int, last: int, begin: int, end: int) -> Any:
    """A character more on each side: what a pattern's borders look at."""
    if first > begin:
        first = character_start(data, first - 1)
    if last < end:
        last = next_start(data, last + 1, end)
    return first, last


@maker
def _grown(windows: Any) -> Any:
    larger = empty((2 * len(windows), 3), np.int64)
    for row in range(len(windows)):
        larger[row, 0], larger[row, 1], larger[row, 2] = windows[row, 0], windows[row, 1], windows[row, 2]
    return larger


@entry(types.int64[:, ::1](BYTES, INTS, BYTES, types.int64))
def find_windows(data: Any, offsets: Any, roles: Any, anchors: int) -> Any:
    """(row, begin, end) of each stretch with at least `anchors` anchors, positions counted from the start of `data`."""
    windows, count = empty((64, 3), np.int64), 0
    for row in range(offsets.size - 1):
        begin, end = offsets[row], offsets[row + 1]
        position = begin
        while position < end:
            if not roles[data[position]] & ANCHOR:
                position += 1
                continue
            first, last, found = _window(data, position, begin, end, roles)
            if found >= anchors:
                windows = _grown(windows) if count == len(windows) else windows
                windows[count, 0] = row
                windows[count, 1], windows[count, 2] = _with_context(data, first, last, begin, end)
                count += 1
            position = last
    return windows[:count].copy()


@entry(TEXTS(BYTES, INTS, types.Array(types.int64, 2, "C", readonly=True), BYTES))
def replace(data: Any, offsets: Any, spans: Any, placeholder: Any) -> Any:
    """All texts with `placeholder` for the spans (row, begin, end), which rise and do not overlap."""
    out = empty(offsets[-1] - offsets[0] + len(spans) * placeholder.size, np.uint8)
    bounds, at, position, span = filled(offsets.size, 0, np.int64), 0, offsets[0], 0
    for row in range(offsets.size - 1):
        while span < len(spans) and spans[span, 0] == row:
            at = copy(data, position, spans[span, 1], out, at)
            at = copy(placeholder, 0, placeholder.size, out, at)
            position, span = spans[span, 2], span + 1
        at = copy(data, position, offsets[row + 1], out, at)
        position, bounds[row + 1] = offsets[row + 1], at
    return out[:at].copy(), bounds
