"""Ids of many documents, told apart. Imports Numba: import when needed."""

from __future__ import annotations

from typing import Any

from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.memory import holds

# What is looked at by vector instructions before it is looked at one by one.
_STRETCH = 64


@entry(types.int64(types.uint32[::1], types.int64, types.int64, types.int64[::1]))
def replace_marks(ids: Any, mark: int, eos: int, offsets: Any) -> int:
    """Put `eos` in place of each mark; how many there are. Where as many offsets follow the first as marks do, they are
    the places after these.
    """
    count = 0
    for begin in range(0, ids.size, _STRETCH):
        end = min(begin + _STRETCH, ids.size)
        if holds(ids[begin:end], mark):
            for i in range(begin, end):
                if ids[i] == mark:
                    ids[i], count = eos, count + 1
                    if count < offsets.size:
                        offsets[count] = i + 1
    return count
