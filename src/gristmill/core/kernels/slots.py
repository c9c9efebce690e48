"""Tables of open addressing, found by 64-bit hashes: sets and maps of strings, and places of first sight.

A set is an array of hashes, a power of two long, 0 where empty, that is never more than half full. A map is a set, and
an array of a number at each slot. A *sighting table* serves many uses, such as documents, without being cleared: an
entry is a key and the place where it was first seen, counted on from where the last use ended, so that older entries
read as empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from gristmill.core.arrays import Hashes
from gristmill.core.compiled import compiled, entry, maker
from gristmill.core.hashing import GOLDEN
from gristmill.core.kernels.hashes import hash_bytes
from gristmill.core.kernels.memory import empty, filled
from gristmill.core.kernels.types import BYTES, HASHES, INTS

HASH_MAP = types.Tuple((HASHES, INTS))

HashMap = tuple[Hashes, npt.NDArray[np.int64]]

_ONE, _HASH_BITS = np.uint64(1), np.uint64(64)


def hash_set(members: Sequence[str]) -> Hashes:
    """The set of these strings, found by the hash of their UTF-8 bytes."""
    return hash_map(dict.fromkeys(members, 0))[0]


def hash_map(numbers: Mapping[str, int]) -> HashMap:
    """A number for each of these strings, found by the hash of their UTF-8 bytes; 0 for all others."""
    data = [member.encode() for member in numbers]
    slots = np.zeros(1 << (2 * len(data)).bit_length(), np.uint64)
    offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)
    values = np.zeros(len(slots), np.int64)
    _fill(np.frombuffer(b"".join(data), np.uint8), offsets, np.array([*numbers.values()], np.int64), slots, values)
    return slots, values


@compiled
def slot_of(slots: Any, key: Any) -> Any:
    """The slot of `key`, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    slot = key & mask
    while slots[slot] != 0 and slots[slot] != key:
        slot = (slot + _ONE) & mask
    return np.int64(slot)


@compiled
def key_of(data: Any, begin: int, end: int) -> Any:
    """The hash of data[begin:end], never that of an empty slot."""
    return max(hash_bytes(data, begin, end), _ONE)


@entry(types.void(BYTES, INTS, INTS, types.uint64[::1], types.int64[::1]))
def _fill(data: Any, offsets: Any, numbers: Any, slots: Any, values: Any) -> None:
    for i in range(offsets.size - 1):
        key = key_of(data, offsets[i], offsets[i + 1])
        slot = slot_of(slots, key)
        slots[slot], values[slot] = key, numbers[i]


@maker
def new_sightings(most: int) -> Any:
    """A table for uses of up to `most` keys: pairs of key and place, and the place to count on from."""
    slots = 4
    while slots < 2 * most:
        slots *= 2
    pairs = empty((slots, 2), np.int64)
    for slot in range(slots):
        pairs[slot, 0] = pairs[slot, 1] = 0
    return pairs, filled(1, 1, np.int64)


@compiled
def begin_use(table: Any, keys: int) -> Any:
    """Begin to use the table for this many keys: the place of the first, and the shift from a hash to a slot."""
    base = table[1][0]
    table[1][0] += keys
    bits = np.uint64(2)
    while np.int64(_ONE << bits) < 2 * keys:
        bits += _ONE
    return base, _HASH_BITS - bits


@compiled
def first_place(table: Any, base: int, shift: Any, key: Any, place: int) -> Any:
    """Where this key was first seen in this use of the table: `place` itself if it is new."""
    slots = table[0]
    mask = (_ONE << (_HASH_BITS - shift)) - _ONE
    slot = (key * GOLDEN) >> shift
    while slots[slot, 1] >= base:
        if slots[slot, 0] == np.int64(key):
            return slots[slot, 1] - base
        slot = (slot + _ONE) & mask
    slots[slot, 0] = np.int64(key)
    slots[slot, 1] = base + place
    return place
