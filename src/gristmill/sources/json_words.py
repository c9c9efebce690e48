"""Eight bytes at a time: finding the end of a run of plain bytes in a JSON string, and copying such runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.core.compiled import compiled
from gristmill.core.kernels.memory import put_uint64, trailing_zeros, uint64_at

QUOTE, BACKSLASH, SPACE = ord('"'), ord("\\"), ord(" ")

# Eight bytes at a time: in `(x - ONES) & ~x & HIGHS` the lowest bit set marks the first byte of x that is 0, in
# `(x - 32 * ONES) & ~x & HIGHS` the first below 32. Bits above the lowest may be wrong, and are not looked at.
_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES, _BLANKS = (np.uint64(byte * 0x0101010101010101) for byte in (QUOTE, BACKSLASH, SPACE))


@compiled
def _first_zero(word: Any) -> Any:
    """A word whose lowest set bit is in the first byte of `word` that is 0; 0 if there is none."""
    return (word - _ONES) & ~word & _HIGHS


@compiled
def skip_plain(data: Any, at: int, end: int) -> Any:
    """The first byte from `at` on that a string does not hold as it is: a quote, a backslash, a control character."""
    while at + 8 <= end:
        word = uint64_at(data, at)
        control = (word - _BLANKS) & ~word & _HIGHS
        found = _first_zero(word ^ _QUOTES) | _first_zero(word ^ _BACKSLASHES) | control
        if found:
            return at + (trailing_zeros(found) >> 3)
        at += 8
    while at < end and data[at] >= SPACE and data[at] != QUOTE and data[at] != BACKSLASH:
        at += 1
    return at


@compiled
def copy_plain(data: Any, begin: int, end: int, out: Any, at: int) -> Any:
    """Copy up to the first backslash; how many bytes. Up to eight more are written, which the next ones replace."""
    first = begin
    while begin + 8 <= end:
        word = uint64_at(data, begin)
        put_uint64(out, at + begin - first, word)
        found = _first_zero(word ^ _BACKSLASHES)
        if found:
            return begin - first + (trailing_zeros(found) >> 3)
        begin += 8
    while begin < end and data[begin] != BACKSLASH:
        out[at + begin - first] = data[begin]
        begin += 1
    return begin - first
