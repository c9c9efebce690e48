"""Compiled JSON for blocks of lines: where the wanted values of each line lie, and strings without their escapes.

A line is READ if it is one JSON object (RFC 8259) with a string under the text's key. Nested values that nobody asked
for are passed over by their brackets. All else (bad JSON, half surrogate pairs, NaN, escapes in keys, a missing text, a
wanted value that is nested) is UNREAD: it is left to a second look.

MB/s on one core, scan and gather together: 640 on entries of 400 bytes, 950 on manual pages, 1,900 on long documents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.lines import NEWLINE, line_end
from gristmill.core.kernels.memory import copy, count
from gristmill.core.kernels.types import BYTES
from gristmill.sources.json_strings import BAD, string_end, unescape

# What a line is.
BLANK, READ, UNREAD = 0, 1, 2
# What a value is: ABSENT is null, too; LITERAL is a number, true or false.
ABSENT, STRING, ESCAPED, LITERAL, NESTED = 0, 1, 2, 3, 4
TEXT = 0

_QUOTE = ord('"')
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = ord("{"), ord("}"), ord("["), ord("]")
_COLON, _COMMA, _MINUS, _PLUS, _DOT, _ZERO, _NINE = ord(":"), ord(","), ord("-"), ord("+"), ord("."), ord("0"), ord("9")
_SPACE, _TAB, _RETURN, _SMALL_E = ord(" "), ord("\t"), ord("\r"), ord("e")
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


@compiled
def _skip_blanks(data: Any, at: int, end: int) -> int:
    while at < end and (data[at] == _SPACE or data[at] == _TAB or data[at] == _RETURN):
        at += 1
    return at


@compiled
def _digits_end(data: Any, at: int, end: int) -> int:
    """The byte after one or more digits."""
    begin = at
    while at < end and _ZERO <= data[at] <= _NINE:
        at += 1
    return at if at > begin else BAD


@compiled
def _number_end(data: Any, at: int, end: int) -> int:
    """The byte after a number."""
    if data[at] == _MINUS:
        at += 1
    if at < end and data[at] == _ZERO:
        at += 1
    else:
        at = _digits_end(data, at, end)
    if at > 0 and at < end and data[at] == _DOT:
        at = _digits_end(data, at + 1, end)
    if at > 0 and at < end and data[at] | 0x20 == _SMALL_E:
        at += 1
        if at < end and (data[at] == _PLUS or data[at] == _MINUS):
            at += 1
        at = _digits_end(data, at, end)
    return at


@compiled
def _holds(data: Any, at: int, end: int, word: Any) -> bool:
    if at + len(word) > end:
        return False
    for i in range(len(word)):  # noqa: SIM110 - Numba has no generators
        if data[at + i] != word[i]:
            return False
    return True


@compiled
def _scalar_end(data: Any, at: int, end: int) -> Any:
    """The byte after a string, number or word, and what it is."""
    if at >= end:
        return BAD, ABSENT
    if data[at] == _QUOTE:
        close, escaped = string_end(data, at + 1, end)
        return (close + 1 if close >= 0 else BAD), (ESCAPED if escaped else STRING)
    if _holds(data, at, end, _NULL):
        return at + 4, ABSENT
    if _holds(data, at, end, _TRUE):
        return at + 4, LITERAL
    if _holds(data, at, end, _FALSE):
        return at + 5, LITERAL
    return _number_end(data, at, end), LITERAL


@compiled
def _nested_end(data: Any, at: int, end: int) -> Any:
    """The byte after an object or list, by counting brackets outside of strings: what is inside is not looked at."""
    depth = 0
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            at, _ = string_end(data, at + 1, end)
            if at < 0:
                return BAD
        elif byte in (_OPEN_OBJECT, _OPEN_LIST):
            depth += 1
        elif byte in (_CLOSE_OBJECT, _CLOSE_LIST):
            depth -= 1
            if depth == 0:
                return at + 1
        elif byte == NEWLINE:
            return BAD
        at += 1
    return BAD


@compiled
def _value_end(data: Any, at: int, end: int) -> Any:
    """The byte after a value, and what it is."""
    if at < end and (data[at] == _OPEN_OBJECT or data[at] == _OPEN_LIST):
        return _nested_end(data, at, end), NESTED
    return _scalar_end(data, at, end)


@compiled
def _wanted(data: Any, begin: int, end: int, keys: Any, key_begins: Any) -> int:
    """Which of the wanted keys the bytes from `begin` to `end` are, or none."""
    for k in range(len(key_begins) - 1):
        size = key_begins[k + 1] - key_begins[k]
        if size == end - begin and _holds(data, begin, end, keys[key_begins[k] : key_begins[k + 1]]):
            return k
    return -1


@compiled
def _scan_member(data: Any, at: int, end: int, keys: Any, key_begins: Any, begins: Any, ends: Any, kinds: Any) -> Any:
    """Note a member of an object if its key is wanted; the byte after it, or bad."""
    if at >= end or data[at] != _QUOTE:
        return BAD
    close, escaped = string_end(data, at + 1, end)
    if close < 0 or escaped:
        return BAD
    key = _wanted(data, at + 1, close, keys, key_begins)
    at = _skip_blanks(data, close + 1, end)
    if at >= end or data[at] != _COLON:
        return BAD
    at = _skip_blanks(data, at + 1, end)
    stop, kind = _value_end(data, at, end)
    if key >= 0:
        quote = 1 if kind in (STRING, ESCAPED) else 0
        begins[key], ends[key], kinds[key] = at + quote, stop - quote, kind
    return stop


@compiled
def _scan_object(data: Any, at: int, end: int, keys: Any, key_begins: Any, begins: Any, ends: Any, kinds: Any) -> int:
    """Note the wanted values of an object that fills its line; where the line ends, or bad."""
    if data[at] != _OPEN_OBJECT:
        return BAD
    at = _skip_blanks(data, at + 1, end)
    while True:
        at = _scan_member(data, at, end, keys, key_begins, begins, ends, kinds)
        if at < 0:
            return BAD
        at = _skip_blanks(data, at, end)
        if at >= end or data[at] != _COMMA:
            break
        at = _skip_blanks(data, at + 1, end)
    if at >= end or data[at] != _CLOSE_OBJECT:
        return BAD
    at = _skip_blanks(data, at + 1, end)
    return at if at == end or data[at] == NEWLINE else BAD


_INTS = types.int64[::1]
_CODES, _INT_ROWS, _CODE_ROWS = types.uint8[::1], types.int64[:, ::1], types.uint8[:, ::1]


@entry(types.int64(BYTES))
def count_breaks(data: Any) -> Any:
    """How many line breaks there are, several bytes a cycle."""
    return count(data, NEWLINE)


@compiled
def _scan_line(data: Any, at: int, keys: Any, key_begins: Any, begins: Any, ends: Any, kinds: Any) -> tuple[int, int]:
    """The state of the line that begins at `at`, and where it ends."""
    first = _skip_blanks(data, at, len(data))
    if first == len(data) or data[first] == NEWLINE:
        return BLANK, first
    end = _scan_object(data, first, len(data), keys, key_begins, begins, ends, kinds)
    if end < 0:
        return UNREAD, line_end(data, at, len(data))
    if kinds[TEXT] != STRING and kinds[TEXT] != ESCAPED:
        return UNREAD, end
    for kind in kinds:
        if kind == NESTED:
            return UNREAD, end
    return READ, end


@entry(types.int64(BYTES, BYTES, _INTS, _INTS, _CODES, _INT_ROWS, _INT_ROWS, _CODE_ROWS))
def scan_lines(
    data: Any, keys: Any, key_begins: Any, lines: Any, states: Any, begins: Any, ends: Any, kinds: Any
) -> int:
    """Fill in, for each line, where it begins, its state, and where each wanted value lies and what it is.

    `keys` holds the wanted keys end to end, the text's first. `kinds` must be ABSENT before. `lines` gets
    the end of the last one, too. Returns the number of lines.
    """
    at = number = 0
    while at < len(data):
        lines[number] = at
        state, end = _scan_line(data, at, keys, key_begins, begins[number], ends[number], kinds[number])
        states[number] = state
        at, number = end + 1, number + 1
    lines[number] = at
    return number


@entry(types.void(BYTES, _INTS, _INTS, _CODES, _CODES, _INTS))
def gather_values(data: Any, begins: Any, ends: Any, kinds: Any, out: Any, offsets: Any) -> None:
    """Write values end to end into `out`, strings without their escapes, and where each begins into `offsets`.

    `out` needs room for all values as they are spelt and eight bytes more.
    """
    at = 0
    for i in range(len(begins)):
        offsets[i] = at
        if kinds[i] == ESCAPED:
            at = unescape(data, begins[i], ends[i], out, at)
        elif kinds[i] != ABSENT:
            at = copy(data, begins[i], ends[i], out, at)
    offsets[len(begins)] = at
