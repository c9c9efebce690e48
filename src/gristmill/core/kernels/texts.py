"""Columns of texts taken apart and put together, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.memory import common, copy, empty, filled
from gristmill.core.kernels.types import BYTES, INTS

TEXTS = types.Tuple((types.uint8[::1], types.int64[::1]))


@entry(TEXTS(BYTES, INTS, INTS))
def gather(data: Any, offsets: Any, rows: Any) -> Any:
    """The texts of these rows, end to end."""
    bounds = filled(rows.size + 1, 0, np.int64)
    for i in range(rows.size):
        bounds[i + 1] = bounds[i] + offsets[rows[i] + 1] - offsets[rows[i]]
    out = empty(bounds[-1], np.uint8)
    for i in range(rows.size):
        copy(data, offsets[rows[i]], offsets[rows[i] + 1], out, bounds[i])
    return out, bounds


@entry(TEXTS(BYTES, INTS, INTS, BYTES, INTS))
def put(data: Any, offsets: Any, rows: Any, new_data: Any, new_offsets: Any) -> Any:
    """All texts, those of these rows (in rising order) replaced by the new ones."""
    bounds, begin, i = filled(offsets.size, 0, np.int64), 0, 0
    for row in range(offsets.size - 1):
        size = offsets[row + 1] - offsets[row]
        if i < rows.size and rows[i] == row:
            size, i = new_offsets[i + 1] - new_offsets[i], i + 1
        bounds[row + 1] = bounds[row] + size
    out = empty(bounds[-1], np.uint8)
    for i in range(rows.size + 1):
        row = rows[i] if i < rows.size else offsets.size - 1
        copy(data, offsets[begin], offsets[row], out, bounds[begin])
        if i < rows.size:
            copy(new_data, new_offsets[i], new_offsets[i + 1], out, bounds[row])
        begin = row + 1
    return out, bounds


@entry(types.void(BYTES, INTS, BYTES, INTS, types.boolean[::1]))
def differ(data: Any, offsets: Any, other: Any, other_offsets: Any, found: Any) -> None:
    """Which rows of two columns of texts are not equal byte for byte."""
    for row in range(offsets.size - 1):
        size, other_size = offsets[row + 1] - offsets[row], other_offsets[row + 1] - other_offsets[row]
        found[row] = size != other_size or common(data, offsets[row], other, other_offsets[row], size) < size
