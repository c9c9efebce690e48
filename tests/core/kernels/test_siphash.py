"""SipHash-2-4 against the vectors of its authors."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.siphash import START, add_block, finish
from gristmill.core.kernels.types import HASHES

MASK = (1 << 64) - 1
# The key of the authors' vectors, bytes 0 to 15, as it enters the state.
KEY = np.frombuffer(bytes(range(16)), np.uint64)


@entry(types.uint64(HASHES, HASHES))
def _hashed(key: Any, blocks: Any) -> Any:
    a, b, c, d = START
    a, b, c, d = a ^ key[0], b ^ key[1], c ^ key[0], d ^ key[1]
    for block in blocks:
        a, b, c, d = add_block(a, b, c, d, block)
    return finish(a, b, c, d)


def blocks_of(data: bytes) -> Any:
    """As SipHash pads bytes: zeros, and their number modulo 256 in the last byte."""
    return np.frombuffer(data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256]), np.uint64)


def test_the_authors_vectors() -> None:
    assert _hashed(KEY, blocks_of(b"")) == 0x726FDB47DD0E0E31
    assert _hashed(KEY, blocks_of(bytes(range(15)))) == 0xA129CA6149BE45E5


@settings(deadline=None)  # the first case compiles
@given(st.lists(st.integers(0, MASK), min_size=1, max_size=6, unique=True))
def test_every_block_and_its_place_count(blocks: list[int]) -> None:
    zero = np.zeros(2, np.uint64)
    hashed = _hashed(zero, np.array(blocks, np.uint64))
    for other in (blocks[::-1], blocks[1:], [*blocks, 0], [blocks[0] ^ 1, *blocks[1:]]):
        assert other == blocks or _hashed(zero, np.array(other, np.uint64)) != hashed
