"""Ids of many documents, told apart. Imports Numba: import when needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import pointer
from gristmill.core.kernels.types import BYTES, INTS, WORDS

# What is looked at by vector instructions before it is looked at one by one.
_STRETCH = 64
_OFFSETS = types.int64[::1]


@entry(types.void(BYTES, INTS, INTS, BYTES, types.int64))
def join_marked(data: Any, begins: Any, ends: Any, mark: Any, address: int) -> None:
    """Write texts end to end at an address, a mark after each."""
    out, to = pointer(address, np.uint8), 0
    for row in range(begins.size):
        begin, size = begins[row], ends[row] - begins[row]
        for i in range(size):
            out[to + i] = data[np.uint64(begin + i)]
        to += size
        for i in range(mark.size):
            out[to + i] = mark[i]
        to += mark.size


@compiled
def _replace(ids: Any, mark: int, eos: int, out: Any, offsets: Any) -> Any:
    count = 0
    for begin in range(0, ids.size, _STRETCH):
        end = min(begin + _STRETCH, ids.size)
        found = False
        for i in range(begin, end):
            out[i] = ids[i]
            found |= (ids[i] == mark) | (ids[i] == eos)
        if found:
            for i in range(begin, end):
                if ids[i] == eos:
                    return -1
                if ids[i] == mark:
                    out[i], count = eos, count + 1
                    if count < offsets.size:
                        offsets[count] = i + 1
    return count


@entry(types.int64(WORDS, types.int64, types.int64, types.uint32[::1], _OFFSETS))
def replace_marks(ids: Any, mark: int, eos: int, out: Any, offsets: Any) -> Any:
    """Copy ids, `eos` in place of each mark; how many there are, -1 where an id is `eos` already. Where as many offsets
    follow the first as marks do, they are the places after these.
    """
    return _replace(ids, mark, eos, out, offsets)


@entry(types.int64(WORDS, types.int64, types.int64, types.uint16[::1], _OFFSETS))
def narrow_marks(ids: Any, mark: int, eos: int, out: Any, offsets: Any) -> Any:
    """As `replace_marks`, into half of the memory."""
    return _replace(ids, mark, eos, out, offsets)
