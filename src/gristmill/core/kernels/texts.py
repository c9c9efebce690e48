"""Columns of texts taken apart and put together, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.types import BYTES, INTS

TEXTS = types.Tuple((types.uint8[::1], types.int64[::1]))


@entry(TEXTS(BYTES, INTS, INTS))
def gather(data: Any, offsets: Any, rows: Any) -> Any:
    """The texts of these rows, end to end."""
    bounds = np.zeros(rows.size + 1, np.int64)
    for i in range(rows.size):
        bounds[i + 1] = bounds[i] + offsets[rows[i] + 1] - offsets[rows[i]]
    out = np.empty(bounds[-1], np.uint8)
    for i in range(rows.size):
        out[bounds[i] : bounds[i + 1]] = data[offsets[rows[i]] : offsets[rows[i] + 1]]
    return out, bounds


@compiled
def _lengths(offsets: Any, rows: Any, new_offsets: Any) -> Any:
    lengths = offsets[1:] - offsets[:-1]
    for i in range(rows.size):
        lengths[rows[i]] = new_offsets[i + 1] - new_offsets[i]
    return lengths


@entry(TEXTS(BYTES, INTS, INTS, BYTES, INTS))
def put(data: Any, offsets: Any, rows: Any, new_data: Any, new_offsets: Any) -> Any:
    """All texts, those of these rows (in rising order) replaced by the new ones."""
    bounds = np.zeros(offsets.size, np.int64)
    bounds[1:] = np.cumsum(_lengths(offsets, rows, new_offsets))
    out = np.empty(bounds[-1], np.uint8)
    begin = 0
    for i in range(rows.size + 1):
        row = rows[i] if i < rows.size else offsets.size - 1
        out[bounds[begin] : bounds[row]] = data[offsets[begin] : offsets[row]]
        if i < rows.size:
            out[bounds[row] : bounds[row + 1]] = new_data[new_offsets[i] : new_offsets[i + 1]]
        begin = row + 1
    return out, bounds


@compiled
def _common(data: Any, begin: int, other: Any, other_begin: int, size: int) -> Any:
    """How many of `size` bytes are equal before the first that is not."""
    for i in range(size):
        if data[begin + i] != other[other_begin + i]:
            return i
    return size


@entry(types.void(BYTES, INTS, BYTES, INTS, types.boolean[::1]))
def differ(data: Any, offsets: Any, other: Any, other_offsets: Any, found: Any) -> None:
    """Which rows of two columns of texts are not equal byte for byte."""
    for row in range(offsets.size - 1):
        size, other_size = offsets[row + 1] - offsets[row], other_offsets[row + 1] - other_offsets[row]
        found[row] = size != other_size or _common(data, offsets[row], other, other_offsets[row], size) < size
