"""The permutation compiled: the same numbers as `order.permute`, three times as fast. Importing it imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.hashing import GOLDEN, MIX_FIRST, MIX_SECOND
from gristmill.core.kernels.hashes import finalise
from gristmill.core.kernels.memory import empty
from gristmill.order.permute import ROUNDS

_HALF, _ONE = np.uint64(32), np.uint64(1)


@compiled
def _scramble(half: Any, key: Any) -> Any:
    h = (half ^ key) * MIX_FIRST
    h = (h ^ (h >> _HALF)) * MIX_SECOND
    return h >> _HALF


@compiled
def _network(x: Any, bits: Any, size: Any, keys: Any, forward: bool) -> Any:
    mask = (_ONE << bits) - _ONE
    left, right = x >> bits, x & mask
    for step in range(keys.size):
        i = step if forward else keys.size - 1 - step
        if i % 2:
            right ^= _scramble(left, keys[i]) & mask
        else:
            move = (_scramble(right, keys[i]) * size) >> _HALF
            left += move if forward else size - move
            if left >= size:
                left -= size
    return (left << bits) | right


@entry(types.boolean(types.uint64[::1], types.uint64, types.uint64, types.uint64, types.uint64[::1], types.boolean))
def walk(x: Any, n: Any, bits: Any, size: Any, keys: Any, forward: bool) -> bool:
    """Permute x in place; there is one key for all, or one each (neighbours that share theirs are quick).

    False once an index is not below n.
    """
    round_keys = empty(ROUNDS, np.uint64)
    for i in range(x.size):
        if i == 0 or (keys.size > 1 and keys[i] != keys[i - 1]):
            for j in range(ROUNDS):
                round_keys[j] = finalise(keys[i] + GOLDEN * np.uint64(j + 1))
        if x[i] >= n:
            return False
        place = _network(x[i], bits, size, round_keys, forward)
        while place >= n:
            place = _network(place, bits, size, round_keys, forward)
        x[i] = place
    return True
