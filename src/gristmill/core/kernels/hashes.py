"""Hashes of numbers and of short stretches of bytes: fast, and no secret to whoever chooses the bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.core.compiled import compiled
from gristmill.core.hashing import GOLDEN, MIX_FIRST, MIX_SECOND
from gristmill.core.kernels.memory import uint64_at

# An odd number whose powers are the places of a polynomial hash, and the factor of each step of `hash_bytes`.
FACTOR = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


@compiled
def finalise(number: Any) -> Any:
    """SplitMix64's finaliser: `core.hashing.mix64` without its increment."""
    number = (number ^ (number >> np.uint64(30))) * MIX_FIRST
    number = (number ^ (number >> np.uint64(27))) * MIX_SECOND
    return number ^ (number >> np.uint64(31))


@compiled
def hash_bytes(data: Any, begin: int, end: int) -> Any:
    """64 bits of data[begin:end]; texts of one length up to eight bytes never collide."""
    hashed, position = np.uint64(0), begin
    while end - position > 8:
        hashed = _mixed(hashed, uint64_at(data, position))
        position += 8
    if position < end:
        hashed = _mixed(hashed, _last_block(data, position, end))
    hashed = (hashed ^ (np.uint64(end - begin) * GOLDEN)) * MIX_FIRST
    return hashed ^ (hashed >> _HALF)


@compiled
def _mixed(hashed: Any, block: Any) -> Any:
    hashed = (hashed ^ block) * FACTOR
    return hashed ^ (hashed >> _HALF)


@compiled
def _last_block(data: Any, begin: int, end: int) -> Any:
    """One to eight bytes as a little-endian number; nothing after `end` is read."""
    if end >= 8:
        return uint64_at(data, end - 8) >> np.uint64(8 * (8 - (end - begin)))
    number = np.uint64(0)
    for i in range(end - 1, begin - 1, -1):
        number = (number << np.uint64(8)) | np.uint64(data[i])
    return number
