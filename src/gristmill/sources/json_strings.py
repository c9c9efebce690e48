"""JSON strings in compiled code: where one ends, and what it says without its escapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.core.compiled import compiled
from gristmill.core.kernels.utf8 import encode
from gristmill.sources.json_words import BACKSLASH, QUOTE, copy_plain, skip_plain

BAD = -1


def _escapes() -> Any:
    """What the byte after a backslash stands for; 0 for none."""
    meanings = np.zeros(256, np.uint8)
    for byte, meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
        meanings[byte] = meaning
    return meanings


def _hex_digits() -> Any:
    """The value of a hexadecimal digit; -1 for any other byte."""
    values = np.full(256, -1, np.int32)
    for digit in b"0123456789abcdefABCDEF":
        values[digit] = int(chr(digit), 16)
    return values


_MEANING, _HEX = _escapes(), _hex_digits()
_SMALL_U = ord("u")


@compiled
def _code_unit(data: Any, at: int, end: int) -> int:
    """The 16 bits that four hexadecimal digits spell."""
    if at + 4 > end:
        return BAD
    unit = 0
    for i in range(4):
        digit = _HEX[data[at + i]]
        if digit < 0:
            return BAD
        unit = unit << 4 | digit
    return unit


@compiled
def _code_point(data: Any, at: int, end: int) -> tuple[int, int]:
    r"""The character of a \u escape whose digits begin at `at`, and the byte after it; half a pair is bad."""
    unit = _code_unit(data, at, end)
    if unit < 0 or 0xDC00 <= unit < 0xE000:
        return BAD, at
    if unit < 0xD800 or unit >= 0xE000:
        return unit, at + 4
    if at + 6 > end or data[at + 4] != BACKSLASH or data[at + 5] != _SMALL_U:
        return BAD, at
    low = _code_unit(data, at + 6, end)
    if low < 0xDC00 or low >= 0xE000:
        return BAD, at
    return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), at + 10


@compiled
def string_end(data: Any, at: int, end: int) -> tuple[int, bool]:
    """Where the string whose first byte is `at` has its closing quote, and whether it holds escapes."""
    escaped = False
    while at < end:
        at = skip_plain(data, at, end)
        if at == end or data[at] == QUOTE:
            break
        if data[at] != BACKSLASH or at + 1 == end:
            return BAD, escaped
        escaped = True
        if data[at + 1] == _SMALL_U:
            point, at = _code_point(data, at + 2, end)
            if point < 0:
                return BAD, escaped
        elif _MEANING[data[at + 1]]:
            at += 2
        else:
            return BAD, escaped
    return (at if at < end else BAD), escaped


@compiled
def unescape(data: Any, begin: int, end: int, out: Any, at: int) -> int:
    """Write a string without its escapes, which the scan has found valid; the byte after it."""
    while begin < end:
        plain = copy_plain(data, begin, end, out, at)
        begin, at = begin + plain, at + plain
        if begin == end:
            break
        if data[begin + 1] == _SMALL_U:
            point, begin = _code_point(data, begin + 2, end)
            at = encode(point, out, at)
        else:
            out[at] = _MEANING[data[begin + 1]]
            begin, at = begin + 2, at + 1
    return at
