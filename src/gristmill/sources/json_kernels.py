"""JSON strings as the bytes that they spell. Imports Numba: import it when needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import copy, trailing_zeros, uint64_at
from gristmill.core.kernels.types import BYTES, INTS

_QUOTE, _BACKSLASH, _U = (ord(mark) for mark in '"\\u')
# What stands behind a backslash and is not itself meant.
_LETTERS, _MEANT = b"bfnrt", b"\b\f\n\r\t"
_EACH, _TOP = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_BACKSLASHES = np.uint64(_BACKSLASH) * _EACH


@compiled
def _next_escape(data: Any, at: int, end: int) -> Any:
    """The next backslash from `at` on, or `end`: eight bytes at a time."""
    while at + 8 <= end:
        differing = uint64_at(data, at) ^ _BACKSLASHES
        found = (differing - _EACH) & ~differing & _TOP
        if found:
            return at + trailing_zeros(found) // 8
        at += 8
    while at < end and data[at] != _BACKSLASH:
        at += 1
    return at


@compiled
def _unit(data: Any, at: int) -> Any:
    """The number of four hexadecimal digits."""
    number: Any = 0
    for i in range(at, at + 4):
        digit = np.int64(data[i])
        number = number << 4 | (digit & 15) + 9 * (digit >> 6)
    return number


@compiled
def _put(code: int, out: Any, at: int) -> Any:
    """Write a character; the place after it."""
    size = 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)
    for i in range(size - 1, 0, -1):
        out[at + i] = 0x80 | code & 0x3F
        code >>= 6
    out[at] = code if size == 1 else 0xF00 >> size & 0xFF | code
    return at + size


@compiled
def _meant(letter: int) -> Any:
    """The byte that a backslash and this one stand for."""
    for i in range(len(_LETTERS)):
        if letter == _LETTERS[i]:
            return _MEANT[i]
    return letter


@entry(types.boolean(BYTES, INTS, types.uint8[::1], types.int64[::1]))
def unescape(data: Any, offsets: Any, out: Any, bounds: Any) -> bool:
    """Write what JSON strings with good escapes spell; False where a value is no string, or holds half of a pair."""
    to = bounds[0] = 0
    for row in range(offsets.size - 1):
        at, end = offsets[row] + 1, offsets[row + 1] - 1
        if end < at or data[at - 1] != _QUOTE:
            return False
        while at < end:
            stop = _next_escape(data, at, end)
            to = copy(data, at, stop, out, to)
            at = stop
            if at + 2 > end:
                break
            if data[at + 1] != _U:
                out[to] = _meant(data[at + 1])
                to, at = to + 1, at + 2
                continue
            if at + 6 > end:
                return False
            code, at = _unit(data, at + 2), at + 6
            if 0xD800 <= code < 0xE000:
                paired = at + 6 <= end and data[at] == _BACKSLASH and data[at + 1] == _U
                low = _unit(data, at + 2) if paired else 0
                if code >= 0xDC00 or not 0xDC00 <= low < 0xE000:
                    return False
                code, at = 0x10000 + (code - 0xD800 << 10) + low - 0xDC00, at + 6
            to = _put(code, out, to)
        bounds[row + 1] = to
    return True
