"""The permutation compiled: the same numbers as `order.permute`, three times as fast. Importing it imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.hashing import MIX_FIRST, MIX_SECOND

_HALF, _ONE = np.uint64(32), np.uint64(1)


@compiled
def _scramble(half: Any, key: Any) -> Any:
    h = (half ^ key) * MIX_FIRST
    h = (h ^ (h >> _HALF)) * MIX_SECOND
    return h >> _HALF


@compiled
def _network(x: Any, bits: Any, size: Any, keys: Any, column: int, forward: bool) -> Any:
    mask = (_ONE << bits) - _ONE
    left, right = x >> bits, x & mask
    for step in range(keys.shape[0]):
        i = step if forward else keys.shape[0] - 1 - step
        if i % 2:
            right ^= _scramble(left, keys[i, column]) & mask
        else:
            move = (_scramble(right, keys[i, column]) * size) >> _HALF
            left += move if forward else size - move
            if left >= size:
                left -= size
    return (left << bits) | right


@entry(types.void(types.uint64[::1], types.uint64, types.uint64, types.uint64, types.uint64[:, ::1], types.boolean))
def walk(x: Any, n: Any, bits: Any, size: Any, keys: Any, forward: bool) -> None:
    """Permute x in place; keys has one column for all, or one each."""
    for i in range(x.size):
        column = i if keys.shape[1] > 1 else 0
        place = _network(x[i], bits, size, keys, column, forward)
        while place >= n:
            place = _network(place, bits, size, keys, column, forward)
        x[i] = place
