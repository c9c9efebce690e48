"""Counts of characters and lines straight from UTF-8 bytes, compiled. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from typing import Any

from numba import int64, void

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.lines import line_end
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.core.kernels.utf8 import decode
from gristmill.curate.characters import ALPHABETIC, DIGIT, KIND, SPACE

_HASH, _SLASH, _STAR, _MINUS, _QUOTE, _TICK = 0x23, 0x2F, 0x2A, 0x2D, 0x22, 0x27


@compiled
def _is_pair(data: Any, at: int, end: int, first: int, second: int) -> Any:
    return at + 1 < end and data[at] == first and data[at + 1] == second


@compiled
def _is_triple(data: Any, at: int, end: int) -> Any:
    """Whether one of Python's triple quotes stands here."""
    quote = data[at] if at < end else 0
    return quote in (_QUOTE, _TICK) and at + 2 < end and data[at + 1] == quote and data[at + 2] == quote


@compiled
def _closes(data: Any, at: int, end: int, block: int) -> Any:
    """Whether a block comment (1: /* */, 2: triple quotes) ends on the rest of this line."""
    while at < end:
        if _is_pair(data, at, end, _STAR, _SLASH) if block == 1 else _is_triple(data, at, end):
            return True
        at += 1
    return False


@compiled
def _comment(data: Any, at: int, end: int, block: int) -> Any:
    """Whether the line from its first character `at` is a comment, and the block comment that is open after it."""
    if block:
        return True, 0 if _closes(data, at, end, block) else block
    if _is_pair(data, at, end, _SLASH, _STAR):
        return True, 0 if _closes(data, at + 2, end, 1) else 1
    if _is_triple(data, at, end):
        return True, 0 if _closes(data, at + 3, end, 2) else 2
    marked = at < end and data[at] == _HASH and not (at + 1 < end and 0x61 <= data[at + 1] <= 0x7A)
    return marked or _is_pair(data, at, end, _SLASH, _SLASH) or _is_pair(data, at, end, _MINUS, _MINUS), 0


@compiled
def _count_line(data: Any, at: int, end: int, characters: Any) -> Any:
    """Characters, alphabetic ones, alphanumeric ones, and the first that is no white space (-1: a blank line)."""
    count = alphabetic = alphanumeric = 0
    first = -1
    while at < end:
        code, size = decode(data, at)
        marks = characters[code]
        if first < 0 and marks & KIND != SPACE:
            first = at
        letter = marks & ALPHABETIC != 0
        alphabetic += letter
        alphanumeric += letter or marks & KIND == DIGIT
        count += 1
        at += size
    return count, alphabetic, alphanumeric, first


@entry(void(BYTES, INTS, BYTES, int64[:, ::1]))
def count(data: Any, offsets: Any, characters: Any, counts: Any) -> None:
    """Fill a row of `counts` for each document, in the order of the fields of Statistics."""
    for row in range(counts.shape[0]):
        at, end, block = offsets[row], offsets[row + 1], 0
        while at < end:
            stop = line_end(data, at, end)
            size, alphabetic, alphanumeric, first = _count_line(data, at, stop, characters)
            counts[row, 0] += size + (stop < end)
            counts[row, 1] += alphabetic
            counts[row, 2] += alphanumeric
            counts[row, 3] += 1
            counts[row, 5] = max(counts[row, 5], size)
            if first >= 0:
                comment, block = _comment(data, first, stop, block)
                counts[row, 4] += 1
                counts[row, 6] += size * comment
            at = stop + 1
