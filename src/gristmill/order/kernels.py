"""Orders compiled: the same numbers as `order.permute` and `order.locality`, some times as fast. It imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.hashing import GOLDEN, MIX_FIRST, MIX_SECOND
from gristmill.core.kernels.hashes import finalise
from gristmill.core.kernels.memory import empty, place_of
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


@compiled
def _expand(key: Any, round_keys: Any) -> None:
    """The keys of all rounds, by SplitMix64 from one."""
    for j in range(ROUNDS):
        round_keys[j] = finalise(key + GOLDEN * np.uint64(j + 1))


@compiled
def _moved(value: Any, n: Any, bits: Any, size: Any, round_keys: Any, forward: bool) -> Any:
    """Where a value below n goes."""
    place = _network(value, bits, size, round_keys, forward)
    while place >= n:
        place = _network(place, bits, size, round_keys, forward)
    return place


@entry(types.boolean(types.uint64[::1], types.uint64, types.uint64, types.uint64, types.uint64[::1], types.boolean))
def walk(x: Any, n: Any, bits: Any, size: Any, keys: Any, forward: bool) -> bool:
    """Permute x in place; there is one key for all, or one each (neighbours that share theirs are quick).

    False once an index is not below n.
    """
    round_keys = empty(ROUNDS, np.uint64)
    for i in range(x.size):
        if i == 0 or (keys.size > 1 and keys[i] != keys[i - 1]):
            _expand(keys[i], round_keys)
        if x[i] >= n:
            return False
        x[i] = _moved(x[i], n, bits, size, round_keys, forward)
    return True


@compiled
def _own_key(key: Any, number: Any) -> Any:
    """The key of a round or a block by its number."""
    return finalise((finalise(np.uint64(number) + GOLDEN) ^ key) + GOLDEN)


_WORDS, _INTS = types.uint64[::1], types.int64[::1]
_BLOCKS, _LANES, _SHORT = range(3)


@entry(types.void(_WORDS, types.uint64[:, ::1], _INTS, _INTS, _INTS, _INTS, types.int64, types.int64, _INTS))
def interleave(
    keys: Any, sizes: Any, starts: Any, listed: Any, delays: Any, ends: Any, block: int, full: int, places: Any
) -> None:
    """Turn places of an epoch into units: `locality.Interleaving.units_at`, whose tables these are, one by one.

    keys: of blocks, of lanes inside a block, of rounds. sizes: for the full blocks, the lanes of a full block and those
    of a short one, what is permuted and the halves of that.
    """
    in_round, in_block, of_blocks = empty(ROUNDS, np.uint64), empty(ROUNDS, np.uint64), empty(ROUNDS, np.uint64)
    _expand(keys[_BLOCKS], of_blocks)
    last, first, end = -1, 0, 0
    for i in range(places.size):
        entry = place_of(starts, places[i] + 1) - 1
        turn = listed[entry] + (places[i] - starts[entry]) // block
        offset = (places[i] - starts[entry]) % block
        if turn != last:
            last, first, end = turn, place_of(ends, turn + 1), place_of(delays, turn + 1)
            _expand(_own_key(keys[2], turn), in_round)
        n, bits, size = sizes[_LANES]
        lane = np.int64(_moved(np.uint64(first + offset), n, bits, size, in_round, True))
        while lane < first or lane >= end:
            lane = np.int64(_moved(np.uint64(lane), n, bits, size, in_round, True))
        found = turn - delays[lane]
        _expand(_own_key(keys[1], found), in_block)
        if found < full:
            inside = _moved(np.uint64(lane), n, bits, size, in_block, True)
            n, bits, size = sizes[_BLOCKS]
            found = np.int64(_moved(np.uint64(found), n, bits, size, of_blocks, True))
        else:
            n, bits, size = sizes[_SHORT]
            inside = _moved(np.uint64(lane) - (sizes[_LANES, 0] - n), n, bits, size, in_block, True)
        places[i] = found * block + np.int64(inside)
