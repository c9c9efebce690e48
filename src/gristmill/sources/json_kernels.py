"""Lines of JSON: where the wanted values of objects stand, and what strings spell. Imports Numba: import when needed.

Lines are checked as RFC 8259 asks for; what is rare is left to others, by False.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import WIDTH, copy, copy_vector, equal_bits, lower_bits, next_byte, trailing_zeros
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.sources.line_kernels import BREAK, RETURN, is_filled

_QUOTE, _BACKSLASH, _N, _U, _COMMA, _COLON, _MINUS, _POINT, _SPACE = (ord(mark) for mark in '"\\nu,:-. ')
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = b"{}[]"
_LITERALS = b"true", b"false", b"null"
# What is expected next: a value, a key, either or the end of what was just opened, or what follows a value.
_VALUE, _KEY, _FIRST_VALUE, _FIRST_KEY, _AFTER = range(5)
_DEEPEST = 60
_ONE = np.uint64(1)
# What may be read and written where 64 bytes are wanted, the last of which may be a backslash.
_AHEAD = 2 * WIDTH + 2
# What a backslash and each byte stand for.
_SPELT = np.arange(256, dtype=np.uint8)
_SPELT[[*b"bfnrt"]] = [*b"\b\f\n\r\t"]


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
def _string_end(data: Any, at: int, end: int) -> Any:
    """The place after the quote that ends a string with good escapes, -1 where there is none.

    64 bytes are looked at at once: bit i is of byte i. Line breaks and quotes that are escaped are passed over among
    them, without a branch for each; other escapes one by one.
    """
    while at < end:
        if at + WIDTH <= data.size:
            slashes, quotes = equal_bits(data, at, _BACKSLASH), equal_bits(data, at, _QUOTE)
            escaped = slashes << _ONE  # what stands behind the last byte is looked at in the next round
            if not slashes & escaped and not escaped & ~(quotes | equal_bits(data, at, _N)):
                ends = quotes & ~escaped | lower_bits(data, at, _SPACE)
                if ends:
                    at += trailing_zeros(ends)
                    return at + 1 if at < end and data[at] == _QUOTE else -1
                at += WIDTH - (slashes >> np.uint64(WIDTH - 1) != 0)
                continue
            at += trailing_zeros(slashes | quotes | lower_bits(data, at, _SPACE))
        if at >= end or data[at] < _SPACE:
            return -1
        if data[at] == _QUOTE:
            return at + 1
        size = _escape_size(data, at, end) if data[at] == _BACKSLASH else 1
        if not size:
            return -1
        at += size
    return -1


@compiled
def _escape_size(data: Any, at: int, end: int) -> Any:
    """Of the escape that begins here, 0 where it is none."""
    if at + 2 > end:
        return 0
    letter = data[at + 1]
    if letter != _U:
        return 2 if _SPELT[letter] != letter or letter in (_QUOTE, _BACKSLASH, 0x2F) else 0
    if at + 6 > end:
        return 0
    for i in range(at + 2, at + 6):
        digit = data[i]
        if not (0x30 <= digit <= 0x39 or 0x41 <= digit <= 0x46 or 0x61 <= digit <= 0x66):
            return 0
    return 6


@compiled
def _past_digits(data: Any, at: int, end: int) -> Any:
    """The place after some digits, -1 where there is none."""
    first = at
    while at < end and 0x30 <= data[at] <= 0x39:
        at += 1
    return at if at > first else -1


@compiled
def _number_end(data: Any, at: int, end: int) -> Any:
    """The place after a number, -1 where there is none."""
    at += data[at] == _MINUS
    stop = _past_digits(data, at, end)
    if stop < 0 or (data[at] == 0x30 and stop > at + 1):
        return -1
    if stop < end and data[stop] == _POINT:
        stop = _past_digits(data, stop + 1, end)
    if 0 <= stop < end and data[stop] | 0x20 == 0x65:  # e or E
        signed = stop + 1 < end and (data[stop + 1] == _MINUS or data[stop + 1] == 0x2B)
        stop = _past_digits(data, stop + 1 + signed, end)
    return stop


@compiled
def _scalar_end(data: Any, at: int, end: int) -> Any:
    """The place after a string, a number, true, false or null; -1 where there is none of these."""
    if data[at] == _QUOTE:
        return _string_end(data, at + 1, end)
    for literal in _LITERALS:
        if data[at] == literal[0]:
            for i in range(len(literal)):
                if at + i >= end or data[at + i] != literal[i]:
                    return -1
            return at + len(literal)
    return _number_end(data, at, end)


@compiled
def _past_blanks(data: Any, at: int, end: int) -> Any:
    while at < end and (data[at] == 0x20 or data[at] == 0x09 or data[at] == 0x0D):
        at += 1
    return at


@compiled
def _wanted(data: Any, at: int, end: int, names: Any, edges: Any) -> Any:
    """Which of the names stands here: -1 for none of them, -2 where that is hard to say, since it is escaped."""
    for i in range(at, end):
        if data[i] == _BACKSLASH:
            return -2
    for name in range(edges.size - 1):
        if edges[name + 1] - edges[name] == end - at:
            same = 0
            while at + same < end and data[at + same] == names[edges[name] + same]:
                same += 1
            if at + same == end:
                return name
    return -1


@compiled
def _find(data: Any, at: int, end: int, names: Any, edges: Any, found: Any, row: int) -> Any:
    """Note where in an object the values of names stand; False where the line is none, or anything is rare about it."""
    state, depth, wanted, objects = _VALUE, 0, -1, np.uint64(0)  # a bit of `objects` for each that is open: no array
    while True:
        at = _past_blanks(data, at, end)
        if at >= end:
            return False
        byte, inside = data[at], objects & _ONE != 0
        closing = byte == (_CLOSE_OBJECT if inside else _CLOSE_ARRAY)
        if closing and depth and state != _VALUE and state != _KEY:
            at, depth, objects, state = at + 1, depth - 1, objects >> _ONE, _AFTER
            if not depth:
                return _past_blanks(data, at, end) == end
        elif state == _AFTER:
            if byte != _COMMA:
                return False
            at, state = at + 1, _KEY if inside else _VALUE
        elif state in (_KEY, _FIRST_KEY):
            stop = _string_end(data, at + 1, end) if byte == _QUOTE else -1
            wanted = _wanted(data, at + 1, stop - 1, names, edges) if stop > 0 and depth == 1 else -1
            colon = _past_blanks(data, stop, end) if stop > 0 else end
            if wanted == -2 or colon >= end or data[colon] != _COLON:
                return False
            at, state = colon + 1, _VALUE
        elif byte in (_OPEN_OBJECT, _OPEN_ARRAY):
            if wanted >= 0 or depth == _DEEPEST or (not depth and byte == _OPEN_ARRAY):
                return False
            objects = objects << _ONE | np.uint64(byte == _OPEN_OBJECT)
            at, depth, state = at + 1, depth + 1, _FIRST_KEY if byte == _OPEN_OBJECT else _FIRST_VALUE
        else:
            stop = _scalar_end(data, at, end) if depth else -1
            if stop < 0:
                return False
            if wanted >= 0:
                found[row, wanted, 0], found[row, wanted, 1] = -1 if byte == 0x6E else at, stop  # n: null
            at, state, wanted = stop, _AFTER, -1


@compiled
def _spell(data: Any, at: int, end: int, out: Any, to: int) -> Any:
    """Write what stands up to `end`, which a quote follows; the place after it, -1 where half of a pair is met."""
    while at < end:
        if at + _AHEAD <= end and to + _AHEAD <= out.size:
            stop, to = _spell_vector(data, at, out, to)
            if stop > at:
                at = stop
                continue
        if data[at] != _BACKSLASH:
            out[to] = data[at]
            at, to = at + 1, to + 1
        elif at + 1 < end and data[at + 1] != _U:
            out[to] = _SPELT[data[at + 1]]
            at, to = at + 2, to + 1
        else:
            code, size = _code_at(data, at, end)
            if code < 0:
                return -1
            to, at = _put(code, out, to), at + size
    return to if at == end else -1


@compiled
def _spell_vector(data: Any, at: int, out: Any, to: int) -> Any:
    """Write what 64 bytes spell, up to an escape of digits; the places after them.

    What follows each escape is written again, one byte nearer, since to move it would be a branch for each byte.
    """
    copy_vector(data, at, out, to)
    slashes, stop, spelt = equal_bits(data, at, _BACKSLASH), at + WIDTH, to - at
    while slashes:
        place = at + trailing_zeros(slashes)
        letter = data[place + 1]
        if letter == _U:
            return place, place + spelt
        out[place + spelt] = _SPELT[letter]
        spelt -= 1
        copy_vector(data, place + 2, out, place + 2 + spelt)
        slashes &= slashes - _ONE
        if letter == _BACKSLASH:
            slashes &= slashes - _ONE
        stop = max(stop, place + 2)
    return stop, stop + spelt


@compiled
def _code_at(data: Any, at: int, end: int) -> Any:
    """The character that is spelt by hexadecimal digits here, and how many bytes spell it; -1 for half of a pair."""
    if at + 6 > end:
        return -1, 0
    code = _unit(data, at + 2)
    if not 0xD800 <= code < 0xE000:
        return code, 6
    paired = at + 12 <= end and data[at + 6] == _BACKSLASH and data[at + 7] == _U
    low = _unit(data, at + 8) if paired else 0
    if code >= 0xDC00 or not 0xDC00 <= low < 0xE000:
        return -1, 0
    return 0x10000 + (code - 0xD800 << 10) + low - 0xDC00, 12


@entry(types.boolean(BYTES, types.int64[:], types.int64[:], types.boolean, types.uint8[::1], types.int64[::1]))
def unescape(data: Any, begins: Any, ends: Any, strings: bool, out: Any, bounds: Any) -> bool:
    """Write what JSON strings with good escapes spell, nothing for a begin of -1, and other values as they stand.

    False where a value is no string and only `strings` are wanted, or one holds half of a pair. Vectors are written as
    far as `out` has room for them, which is 64 bytes more than what is spelt.
    """
    to = bounds[0] = 0
    for row in range(begins.size):
        at, end = begins[row] + 1, ends[row] - 1
        if at and end >= at and data[at - 1] == _QUOTE:
            to = _spell(data, at, end, out, to)
        elif strings:
            return False
        elif at:
            to = copy(data, at - 1, end + 1, out, to)
        if to < 0:
            return False
        bounds[row + 1] = to
    return True


@compiled
def _read_line(data: Any, at: int, stop: int, names: Any, edges: Any, places: Any, row: int, out: Any, to: int) -> Any:
    """Note where values stand in a line, and write its text; the place after it, -1 where anything is rare."""
    for name in range(edges.size - 1):
        places[row, name, 0] = places[row, name, 1] = -1
    if not _find(data, at, stop - (data[stop - 1] == RETURN), names, edges, places, row):
        return -1
    begin, end = places[row, 0, 0] + 1, places[row, 0, 1] - 1
    if not begin or end < begin or data[begin - 1] != _QUOTE:
        return -1
    return _spell(data, begin, end, out, to)


@entry(
    types.UniTuple(types.int64, 2)(
        BYTES, BYTES, INTS, types.int64[::1], types.int64[:, :, ::1], types.uint8[::1], types.int64[::1]
    )
)
def read_lines(data: Any, names: Any, edges: Any, begins: Any, places: Any, out: Any, bounds: Any) -> Any:
    """How many lines there are that are not blank, and how many in all; -1 where anything is rare about one of them.

    Of as many as the arrays have room for: where each begins, what the string under the first name spells, written end
    to end as `unescape` does, and the begin and the end of the values under all names, -1 for what is null or missing.
    """
    count, lines, at, to = 0, 0, 0, 0
    bounds[0] = 0
    while at < data.size:
        stop = next_byte(data, at, BREAK)
        if is_filled(data, at, stop):
            if count < begins.size:
                to = _read_line(data, at, stop, names, edges, places, count, out, to)
                if to < 0:
                    return -1, lines
                begins[count], bounds[count + 1] = at, to
            count += 1
        lines, at = lines + 1, stop + 1
    return count, lines
