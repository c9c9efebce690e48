"""Words out of UTF-8 bytes, compiled. Importing this module imports Numba (0.2 s), so import it where it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.hashes import hash_bytes
from gristmill.core.kernels.memory import trailing_zeros, uint64_at
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.core.kernels.utf8 import decode
from gristmill.curate.characters import (
    ALPHABETIC,
    DIGIT,
    EXTEND,
    INNER,
    KIND,
    LETTER,
    OTHER,
    POINT,
    PUNCTUATION,
    SINGLE,
    SPACE,
    SYMBOL,
    TERMINAL,
)

ALPHA, WORD, SENTENCE_END, PUNCT = 1, 2, 4, 8

# starts, ends, hashes, chars, flags: what is known of a word.
COLUMNS = types.Tuple((types.int32[::1], types.int32[::1], types.uint64[::1], types.int32[::1], types.uint8[::1]))

# One byte in each of eight: its high bit, its low bits, and numbers for sums that set the high bit from a, after z.
_HIGH, _LOW = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_FOLD = np.uint64(0x2020202020202020)
_FROM_A, _AFTER_Z = np.uint64(0x1F1F1F1F1F1F1F1F), np.uint64(0x0505050505050505)


@compiled
def letter_bytes(block: Any) -> Any:
    """The high bit of each byte that is an ASCII letter."""
    folded = (block | _FOLD) & _LOW
    return (folded + _FROM_A) & ~(folded + _AFTER_Z) & ~block & _HIGH


@compiled
def letters_end(data: Any, position: Any, end: int) -> Any:
    """The end of the ASCII letters at `position`."""
    while position + 8 <= end:
        letters = trailing_zeros(~letter_bytes(uint64_at(data, position)) & _HIGH) >> 3
        position += letters
        if letters < 8:
            return position
    while position < end and np.uint8((data[position] | 0x20) - 0x61) < 26:
        position += 1
    return position


@compiled
def measure(data: Any, begin: int, end: int, characters: Any) -> Any:
    """The characters in data[begin:end], and its flags but SENTENCE_END."""
    chars, some, every = 0, 0, 0xFF
    symbols = SYMBOL
    while begin < end:
        code, size = decode(data, begin)
        marks = characters[code]
        some, every, symbols = some | marks, every & marks, symbols & marks
        chars, begin = chars + 1, begin + size
    flags = (ALPHA if some & ALPHABETIC else 0) | (0 if symbols else WORD) | (PUNCT if every & PUNCTUATION else 0)
    return chars, flags


@compiled
def _after_run(data: Any, position: int, end: int, characters: Any, code: int) -> Any:
    """The end of a token that is no word: the same character again and again, and what extends it."""
    while position < end:
        following, size = decode(data, position)
        if following != code and characters[following] & KIND != EXTEND:
            break
        position += size
    return position


@compiled
def _after_word(data: Any, position: int, end: int, characters: Any, before: int) -> Any:
    """The end of a word whose last character so far is of the kind `before`."""
    while position < end:
        code, size = decode(data, position)
        kind = characters[code] & KIND
        if kind in (INNER, POINT):
            if position + size == end:
                break
            kind = characters[decode(data, position + size)[0]] & KIND
            joins = kind == DIGIT or (kind == LETTER and characters[code] & KIND == INNER)
            if not joins or (characters[code] & KIND == POINT and before != DIGIT):
                break
        elif kind != LETTER and kind != DIGIT and kind != EXTEND:
            break
        before = before if kind == EXTEND else kind
        position += size
    return position


@compiled
def _after_marks(data: Any, position: int, end: int, characters: Any) -> Any:
    while position < end:
        code, size = decode(data, position)
        if characters[code] & KIND != EXTEND:
            break
        position += size
    return position


@compiled
def _after_token(data: Any, position: int, end: int, characters: Any) -> Any:
    """The end of the token that begins at `position`, which is no white space."""
    code, size = decode(data, position)
    kind = characters[code] & KIND
    if kind == SINGLE:
        return _after_marks(data, position + size, end, characters)
    if kind in (OTHER, INNER, POINT):
        return _after_run(data, position + size, end, characters, code)
    return _after_word(data, position + size, end, characters, kind)


@compiled
def _after_letters(data: Any, position: int, letters: int, end: int, characters: Any) -> Any:
    """The end of the token at `position`, which begins with ASCII letters up to `letters`."""
    if letters == position:
        return _after_token(data, position, end, characters)
    return _after_word(data, letters, end, characters, LETTER)


@compiled
def _split_document(data: Any, begin: int, end: int, characters: Any, count: int, columns: Any) -> Any:
    """The words of one document from row `count` on; the row after them, or -1 where there is no room."""
    starts, ends, hashes, chars, flags = columns
    position = begin
    while position < end:
        code, size = decode(data, position)
        if characters[code] & KIND == SPACE:
            position += size
            continue
        if count == starts.size:
            return -1
        letters = letters_end(data, position, end)
        after = _after_letters(data, position, letters, end, characters)
        starts[count], ends[count] = position - begin, after - begin
        hashes[count] = hash_bytes(data, position, after)
        if after == letters:
            chars[count], flags[count] = after - position, ALPHA | WORD
        else:
            chars[count], flags[count] = measure(data, position, after, characters)
        if characters[code] & TERMINAL:
            flags[count] |= np.uint8(SENTENCE_END)
        count, position = count + 1, after
    return count


@entry(types.int64(BYTES, INTS, BYTES, types.int64, types.int64[::1], COLUMNS))
def split_documents(data: Any, offsets: Any, characters: Any, document: int, bounds: Any, columns: Any) -> Any:
    """Split from `document` on, whose words begin at bounds[document]; returns the first that found no room."""
    while document < offsets.size - 1:
        count = _split_document(data, offsets[document], offsets[document + 1], characters, bounds[document], columns)
        if count < 0:
            break
        document += 1
        bounds[document] = count
    return document
