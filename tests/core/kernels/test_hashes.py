"""The fast hashes against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.hashing import GOLDEN, mix64
from gristmill.core.kernels.hashes import finalise, hash_bytes
from gristmill.core.kernels.types import BYTES

MASK = (1 << 64) - 1


@entry(types.uint64(types.uint64))
def _finalised(number: Any) -> Any:
    return finalise(number)


@entry(types.uint64(BYTES, types.int64, types.int64))
def _hashed(data: Any, begin: int, end: int) -> Any:
    return hash_bytes(data, begin, end)


def _defined(data: bytes) -> int:
    hashed = 0
    for at in range(0, len(data), 8):
        hashed = ((hashed ^ int.from_bytes(data[at : at + 8], "little")) * 0xD6E8FEB86659FD93) & MASK
        hashed ^= hashed >> 32
    hashed = ((hashed ^ (len(data) * 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9) & MASK
    return hashed ^ (hashed >> 32)


@settings(deadline=None)  # the first case compiles
@given(st.integers(0, MASK))
def test_the_finaliser_is_that_of_mix64_without_its_increment(number: int) -> None:
    assert _finalised(np.uint64(number)) == mix64((number - int(GOLDEN)) & MASK)


@settings(deadline=None)
@given(st.binary(max_size=12), st.binary(max_size=40), st.binary(max_size=12))
def test_bytes_have_the_hash_of_their_definition_wherever_they_lie(before: bytes, data: bytes, after: bytes) -> None:
    whole = np.frombuffer(before + data + after, np.uint8)
    assert _hashed(whole, len(before), len(before) + len(data)) == _defined(data)


def test_a_golden_hash() -> None:
    """Tables that are kept on disk hold such numbers."""
    assert _hashed(np.frombuffer(b"counterrevolutionaries", np.uint8), 0, 22) == 0xCAB5F0BEC32564E0
