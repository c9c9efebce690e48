"""Tell lines of code from lines of prose, compiled. Importing this module imports Numba (0.2 s).

A full line earns points for what programs have and sentences lack, and is code from CODE points on.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from numba import int64, uint64, void

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.lines import line_end
from gristmill.core.kernels.memory import count, holds
from gristmill.core.kernels.types import BYTES, INTS

CODE = 2
# From so many blanks on a line may be a sentence, and over so many it is a paragraph, whatever stands in it.
SENTENCE, PARAGRAPH = 5, 40

# Words (of at most eight bytes) that begin a line of code and hardly ever a line of prose.
KEYWORDS = """
    #define #elif #else #endif #if #ifdef #ifndef #import #include #pragma @charset @import @media assert async await
    bool catch char const def defer del double echo elif elsif endif enum esac except export extern fi float fn foreach
    func function impl inline int let local long mod mut nonlocal package printf private pub public raise return short
    signed sizeof static std struct sub sudo super switch template throw typedef typeof uint union unsigned using var
    virtual void volatile yield
"""
# Words that begin lines of both.
SHARED_KEYWORDS = """
    and as begin break case class continue do else end for from global if import in or pass try type use while with
"""
_OPERATORS = "== != <= >= += -= *= |= -> => :: && || // /* */"

# What a byte may be.
_NAME, _SMALL, _CAPITAL, _SIGIL, _SPACE, _BRACE, _UNFINISHED, _OPERATOR = 1, 2, 4, 8, 16, 32, 64, 128
_SMALL_LETTERS, _CAPITALS = string.ascii_lowercase.encode(), string.ascii_uppercase.encode()
_MEMBERS = (
    (_NAME, bytes([*_SMALL_LETTERS, *_CAPITALS, *b"0123456789_", *range(0x80, 0x100)])),
    (_SMALL, _SMALL_LETTERS),
    (_CAPITAL, _CAPITALS),
    (_SIGIL, b"#@"),
    (_SPACE, b" \t\r"),
    (_BRACE, b"{}"),
    (_UNFINISHED, b"([=\\"),
    (_OPERATOR, _OPERATORS.replace(" ", "").encode()),
)
_BLANK, _TAB, _POINT, _COLON, _SEMICOLON, _EQUALS, _OPEN, _LOW_LINE, _SMALL_S, _LESS, _GREATER = b" \t.:;=(_s<>"


def _kinds() -> Any:
    kinds = np.zeros(256, np.uint8)
    for flag, members in _MEMBERS:
        kinds[list(set(members))] |= flag
    return kinds


_KINDS = _kinds()
_PAIRS = np.frombuffer(_OPERATORS.replace(" ", "").encode(), np.uint8).reshape(-1, 2)


@compiled
def _is(byte: int, flag: int) -> Any:
    return _KINDS[byte] & flag != 0


@compiled
def _first_word(data: Any, at: int, end: int) -> Any:
    """The first word of a line, with a leading # or @, packed into eight bytes; 0 if it is longer."""
    word, size = np.uint64(0), 0
    while at + size < end and _is(data[at + size], _NAME if size else _NAME | _SIGIL):
        if size == 8:
            return np.uint64(0)
        word |= np.uint64(data[at + size]) << np.uint64(8 * size)
        size += 1
    return word


@compiled
def _ending(byte: int, blanks: int) -> Any:
    """Points for a line's last character."""
    if _is(byte, _BRACE) or (byte == _SEMICOLON and blanks < SENTENCE):
        return 2
    return 1 if byte == _SEMICOLON or _is(byte, _UNFINISHED) else 0


@compiled
def _is_operator(before: int, first: int, second: int) -> Any:
    """Whether two characters are an operator, and no part of a ruler (=====) or an address (://)."""
    found = False
    if _is(first, _OPERATOR) and _is(second, _OPERATOR) and before != first and before != _COLON:
        for i in range(_PAIRS.shape[0]):
            found |= _PAIRS[i, 0] == first and _PAIRS[i, 1] == second
    return found


@compiled
def _is_compound(last: int, byte: int, following: int) -> Any:
    """Whether a name goes on here: snake_case, camelCase, a.b."""
    if byte == _LOW_LINE:
        return _is(last, _NAME) and _is(following, _NAME)
    return (byte == _POINT or _is(byte, _CAPITAL)) and _is(last, _SMALL) and _is(following, _SMALL)


@compiled
def _marks(data: Any, at: int, end: int) -> Any:
    """Points for an operator, an assignment, a call and a compound name: one each, however many there are."""
    operator = assignment = call = compound = False
    before = last = np.uint8(0)
    while at < end:
        byte = data[at]
        following = data[at + 1] if at + 1 < end else np.uint8(0)
        operator |= _is_operator(before, last, byte)
        assignment |= byte == _EQUALS and last == _BLANK and following == _BLANK
        call |= byte == _OPEN and _is(last, _NAME) and following != _SMALL_S  # no word(s)
        compound |= _is_compound(last, byte, following)
        before, last = last, byte
        at += 1
    return operator + assignment + call + compound


@compiled
def _keyword(word: int, last: int, blanks: int, keywords: Any, shared: Any) -> Any:
    """Points for a line's first word; one that prose has too must stand in a short line or before a colon."""
    short = blanks < 3 and last != _POINT
    return 2 if holds(keywords, word) or (holds(shared, word) and (short or last == _COLON)) else 0


@compiled
def _points(data: Any, begin: int, end: int, keywords: Any, shared: Any) -> Any:
    """The points of a line that begins with its indent and ends without white space."""
    at = begin
    while _is(data[at], _SPACE):
        at += 1
    blanks, last = count(data[at:end], _BLANK), data[end - 1]
    if blanks > PARAGRAPH:
        return 0
    points = _ending(last, blanks) + _marks(data, at, end)
    points += _keyword(_first_word(data, at, end), last, blanks, keywords, shared)
    points += 2 * (data[at] == _LESS and last == _GREATER)
    indented = at - begin >= 4 or data[begin] == _TAB
    return points + (indented and points > 0 and blanks < SENTENCE)


@compiled
def _stripped_end(data: Any, begin: int, end: int) -> Any:
    while end > begin and _is(data[end - 1], _SPACE):
        end -= 1
    return end


@entry(void(BYTES, INTS, uint64[::1], uint64[::1], int64[:, ::1]))
def count_code(data: Any, offsets: Any, keywords: Any, shared: Any, counts: Any) -> None:
    """By document: lines that look like code, and lines that are not blank."""
    for row in range(counts.shape[0]):
        begin, end = offsets[row], offsets[row + 1]
        while begin < end:
            stop = line_end(data, begin, end)
            last = _stripped_end(data, begin, stop)
            if last > begin:
                counts[row, 0] += _points(data, begin, last, keywords, shared) >= CODE
                counts[row, 1] += 1
            begin = stop + 1
