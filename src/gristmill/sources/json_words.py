"""Eight bytes at a time: finding the end of a run of plain bytes in a JSON string, and copying such runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from gristmill.core.compiled import compiled

QUOTE, BACKSLASH, SPACE = ord('"'), ord("\\"), ord(" ")

# Eight bytes at a time: in `(x - ONES) & ~x & HIGHS` the lowest bit set marks the first byte of x that is 0, in
# `(x - 32 * ONES) & ~x & HIGHS` the first below 32. Bits above the lowest may be wrong, and are not looked at.
_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES, _BLANKS = (np.uint64(byte * 0x0101010101010101) for byte in (QUOTE, BACKSLASH, SPACE))


def _load_word(typing_context: Any, data: Any, position: Any) -> Any:
    """The eight bytes at `position` as one little-endian number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature, arguments), align=1)

    return types.uint64(data, types.int64), generate


def _store_word(typing_context: Any, data: Any, position: Any, word: Any) -> Any:
    """Eight bytes written at `position`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(context, builder, signature, arguments), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from numba.core import cgutils

    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = cgutils.pointer_add(builder, array.data, arguments[1])
    return builder.bitcast(place, context.get_value_type(types.CPointer(types.uint64)))


def _count_trailing_zeros(typing_context: Any, word: Any) -> Any:
    """How many of the lowest bits are 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), generate


_load: Any = intrinsic(_load_word)
_store: Any = intrinsic(_store_word)
_trailing_zeros: Any = intrinsic(_count_trailing_zeros)


@compiled
def _first_zero(word: Any) -> Any:
    """A word whose lowest set bit is in the first byte of `word` that is 0; 0 if there is none."""
    return (word - _ONES) & ~word & _HIGHS


@compiled
def skip_plain(data: Any, at: int, end: int) -> Any:
    """The first byte from `at` on that a string does not hold as it is: a quote, a backslash, a control character."""
    while at + 8 <= end:
        word = _load(data, at)
        control = (word - _BLANKS) & ~word & _HIGHS
        found = _first_zero(word ^ _QUOTES) | _first_zero(word ^ _BACKSLASHES) | control
        if found:
            return at + (_trailing_zeros(found) >> 3)
        at += 8
    while at < end and data[at] >= SPACE and data[at] != QUOTE and data[at] != BACKSLASH:
        at += 1
    return at


@compiled
def copy_plain(data: Any, begin: int, end: int, out: Any, at: int) -> Any:
    """Copy up to the first backslash; how many bytes. Up to eight more are written, which the next ones replace."""
    first = begin
    while begin + 8 <= end:
        word = _load(data, begin)
        _store(out, at + begin - first, word)
        found = _first_zero(word ^ _BACKSLASHES)
        if found:
            return begin - first + (_trailing_zeros(found) >> 3)
        begin += 8
    while begin < end and data[begin] != BACKSLASH:
        out[at + begin - first] = data[begin]
        begin += 1
    return begin - first
