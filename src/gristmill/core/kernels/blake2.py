"""BLAKE2b of stretches of bytes, compiled: 128 bits that nobody can make two texts share.

Whoever writes a text may choose it so that a fast hash equals that of another's text, and hashes decide here which of
two texts goes. The digest is that of `hashlib.blake2b(data, digest_size=16)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import empty, uint64_at
from gristmill.core.kernels.types import BYTES, INTS

_IV = (
    np.uint64(0x6A09E667F3BCC908), np.uint64(0xBB67AE8584CAA73B), np.uint64(0x3C6EF372FE94F82B),
    np.uint64(0xA54FF53A5F1D36F1), np.uint64(0x510E527FADE682D1), np.uint64(0x9B05688C2B3E6C1F),
    np.uint64(0x1F83D9ABFB41BD6B), np.uint64(0x5BE0CD19137E2179),
)  # fmt: skip
# No key, one lane, and 16 bytes of digest.
_PARAMETERS = np.uint64(0x01010000 | 16)
_SIGMA = np.array([
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
], np.uint64)  # fmt: skip
_BLOCK = 128
_ZERO, _ONES = np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_1, _16, _24, _32, _40, _48, _63 = (np.uint64(n) for n in (1, 16, 24, 32, 40, 48, 63))


@compiled
def _load(data: Any, at: int, end: int, words: Any) -> None:
    """The block at `at` as 16 words, zeros beyond `end`."""
    i = 0
    while i < 16 and at + 8 <= end:
        words[i] = uint64_at(data, at)
        i, at = i + 1, at + 8
    if i < 16:
        for k in range(i, 16):
            words[k] = _ZERO
        for k in range(end - at):
            words[i] |= np.uint64(data[np.uint64(at + k)]) << np.uint64(8 * k)


@compiled
def _mixed(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
    a = a + b + x
    d ^= a
    d = d >> _32 | d << _32
    c = c + d
    b ^= c
    b = b >> _24 | b << _40
    a = a + b + y
    d ^= a
    d = d >> _16 | d << _48
    c = c + d
    b ^= c
    b = b >> _63 | b << _1
    return a, b, c, d


@compiled
def _compress(state: Any, m: Any, count: Any, last: Any) -> None:
    """Mix the 16 words of a block into the state; `count` bytes so far, `last` is all ones for the last block."""
    a0, a1, a2, a3, b0, b1, b2, b3 = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
    c0, c1, c2, c3, d0, d1, d2, d3 = _IV[0], _IV[1], _IV[2], _IV[3], _IV[4] ^ count, _IV[5], _IV[6] ^ last, _IV[7]
    for r in range(12):
        s = _SIGMA[r]
        a0, b0, c0, d0 = _mixed(a0, b0, c0, d0, m[s[0]], m[s[1]])
        a1, b1, c1, d1 = _mixed(a1, b1, c1, d1, m[s[2]], m[s[3]])
        a2, b2, c2, d2 = _mixed(a2, b2, c2, d2, m[s[4]], m[s[5]])
        a3, b3, c3, d3 = _mixed(a3, b3, c3, d3, m[s[6]], m[s[7]])
        a0, b1, c2, d3 = _mixed(a0, b1, c2, d3, m[s[8]], m[s[9]])
        a1, b2, c3, d0 = _mixed(a1, b2, c3, d0, m[s[10]], m[s[11]])
        a2, b3, c0, d1 = _mixed(a2, b3, c0, d1, m[s[12]], m[s[13]])
        a3, b0, c1, d2 = _mixed(a3, b0, c1, d2, m[s[14]], m[s[15]])
    state[0] ^= a0 ^ c0
    state[1] ^= a1 ^ c1
    state[2] ^= a2 ^ c2
    state[3] ^= a3 ^ c3
    state[4] ^= b0 ^ d0
    state[5] ^= b1 ^ d1
    state[6] ^= b2 ^ d2
    state[7] ^= b3 ^ d3


@compiled
def digest(data: Any, begin: int, end: int, scratch: Any) -> Any:
    """Both halves of the digest of data[begin:end], as signed numbers; `scratch` has room for 24 words."""
    state, words = scratch[:8], scratch[8:]
    for i in range(8):
        state[i] = _IV[i]
    state[0] ^= _PARAMETERS
    at = begin
    while at + _BLOCK < end:
        _load(data, at, end, words)
        at += _BLOCK
        _compress(state, words, np.uint64(at - begin), _ZERO)
    _load(data, at, end, words)
    _compress(state, words, np.uint64(end - begin), _ONES)
    return np.int64(state[0]), np.int64(state[1])


@entry(types.void(BYTES, INTS, types.int64[::1], types.int64[::1]))
def digests(data: Any, offsets: Any, first: Any, second: Any) -> None:
    """The digest of each text, in halves."""
    scratch = empty(24, np.uint64)
    for text in range(offsets.size - 1):
        first[text], second[text] = digest(data, offsets[text], offsets[text + 1], scratch)
