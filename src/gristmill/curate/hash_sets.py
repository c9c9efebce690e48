"""Sets and maps of strings as open-addressing tables of their 64-bit hashes, compiled; importing this imports Numba.

A set is an array a power of two long, 0 where empty, that is never more than half full. A map is a set, and an array of
a number at each slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from gristmill.core.compiled import entry, leaf
from gristmill.curate.word_kernels import BYTES, INTS, hash_bytes

HASHES = types.Array(types.uint64, 1, "C", readonly=True)
HASH_MAP = types.Tuple((HASHES, types.Array(types.int64, 1, "C", readonly=True)))

Hashes = npt.NDArray[np.uint64]
HashMap = tuple[Hashes, npt.NDArray[np.int64]]


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


@leaf
def slot_of(slots: Any, key: Any) -> Any:
    """The slot of `key`, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    slot = key & mask
    while slots[slot] != 0 and slots[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@leaf
def key_of(data: Any, begin: int, end: int) -> Any:
    """The hash of data[begin:end], never that of an empty slot."""
    return max(hash_bytes(data, begin, end), np.uint64(1))


@entry(types.void(BYTES, INTS, INTS, types.uint64[::1], types.int64[::1]))
def _fill(data: Any, offsets: Any, numbers: Any, slots: Any, values: Any) -> None:
    for i in range(offsets.size - 1):
        key = key_of(data, offsets[i], offsets[i + 1])
        slot = slot_of(slots, key)
        slots[slot], values[slot] = key, numbers[i]
