"""Words out of UTF-8 bytes, compiled. Importing this module imports Numba (0.2 s), so import it where it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gristmill.core.compiled import entry, leaf
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

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
INTS = types.Array(types.int64, 1, "C", readonly=True)
INTS32 = types.Array(types.int32, 1, "C", readonly=True)
# starts, ends, hashes, chars, flags: what is known of a word.
COLUMNS = types.Tuple((types.int32[::1], types.int32[::1], types.uint64[::1], types.int32[::1], types.uint8[::1]))

_LENGTH = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY = np.uint64(0xD6E8FEB86659FD93)
_FINISH = np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)
# One byte in each of eight: its high bit, its low bits, and numbers for sums that set the high bit from a, after z.
_HIGH, _LOW = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_FOLD = np.uint64(0x2020202020202020)
_FROM_A, _AFTER_Z = np.uint64(0x1F1F1F1F1F1F1F1F), np.uint64(0x0505050505050505)


def _unaligned_uint64(typing_context: Any, data: Any, position: Any) -> Any:
    """The eight bytes at `position` of a byte array as one little-endian number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.pointer_add(builder, array.data, arguments[1])
        word = builder.bitcast(place, context.get_value_type(types.CPointer(types.uint64)))
        return builder.load(word, align=1)

    return types.uint64(data, types.int64), generate


def _trailing_zeros(typing_context: Any, number: Any) -> Any:
    """How many low bits are 0: 64 of the number 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate


uint64_at: Any = intrinsic(_unaligned_uint64)
trailing_zeros: Any = intrinsic(_trailing_zeros)


@leaf
def mix(hashed: Any, block: Any) -> Any:
    """The hash of one more block of eight bytes."""
    hashed = (hashed ^ block) * _MULTIPLY
    return hashed ^ (hashed >> _HALF)


@leaf
def finish(hashed: Any, size: int) -> Any:
    """The hash of `size` bytes, whose blocks have been mixed: zeros after a last short block do not count."""
    hashed = (hashed ^ (np.uint64(size) * _LENGTH)) * _FINISH
    return hashed ^ (hashed >> _HALF)


@leaf
def hash_bytes(data: Any, begin: int, end: int) -> Any:
    """64 bits of data[begin:end]; texts of one length up to eight bytes never collide."""
    hashed, position = np.uint64(0), begin
    while end - position > 8:
        hashed = mix(hashed, uint64_at(data, position))
        position += 8
    if position < end:
        hashed = mix(hashed, _last_block(data, position, end))
    return finish(hashed, end - begin)


@leaf
def _last_block(data: Any, begin: int, end: int) -> Any:
    """One to eight bytes as a little-endian number; nothing after `end` is read."""
    if end >= 8:
        return uint64_at(data, end - 8) >> np.uint64(8 * (8 - (end - begin)))
    number = np.uint64(0)
    for i in range(end - 1, begin - 1, -1):
        number = (number << np.uint64(8)) | np.uint64(data[i])
    return number


@leaf
def letter_bytes(block: Any) -> Any:
    """The high bit of each byte that is an ASCII letter."""
    folded = (block | _FOLD) & _LOW
    return (folded + _FROM_A) & ~(folded + _AFTER_Z) & ~block & _HIGH


@leaf
def letters_end(data: Any, position: Any, end: int) -> Any:
    """The end of the ASCII letters at `position`."""
    while position + 8 <= end:
        letters = trailing_zeros(~letter_bytes(uint64_at(data, position)) & _HIGH) >> np.uint64(3)
        position += np.int64(letters)
        if letters < 8:
            return position
    while position < end and np.uint8((data[position] | 0x20) - 0x61) < 26:
        position += 1
    return position


@leaf
def decode(data: Any, position: int) -> Any:
    """The character at `position` of valid UTF-8, and its length in bytes."""
    lead: Any = np.int64(data[position])
    if lead < 0x80:
        return lead, 1
    if lead < 0xE0:
        return ((lead & 0x1F) << 6) | (data[position + 1] & 0x3F), 2
    rest = ((np.int64(data[position + 1]) & 0x3F) << 6) | (data[position + 2] & 0x3F)
    if lead < 0xF0:
        return ((lead & 0x0F) << 12) | rest, 3
    return ((lead & 0x07) << 18) | (rest << 6) | (data[position + 3] & 0x3F), 4


@leaf
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


@leaf
def _after_run(data: Any, position: int, end: int, characters: Any, code: int) -> Any:
    """The end of a token that is no word: the same character again and again, and what extends it."""
    while position < end:
        following, size = decode(data, position)
        if following != code and characters[following] & KIND != EXTEND:
            break
        position += size
    return position


@leaf
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


@leaf
def _after_marks(data: Any, position: int, end: int, characters: Any) -> Any:
    while position < end:
        code, size = decode(data, position)
        if characters[code] & KIND != EXTEND:
            break
        position += size
    return position


@leaf
def _after_token(data: Any, position: int, end: int, characters: Any) -> Any:
    """The end of the token that begins at `position`, which is no white space."""
    code, size = decode(data, position)
    kind = characters[code] & KIND
    if kind == SINGLE:
        return _after_marks(data, position + size, end, characters)
    if kind in (OTHER, INNER, POINT):
        return _after_run(data, position + size, end, characters, code)
    return _after_word(data, position + size, end, characters, kind)


@leaf
def _after_letters(data: Any, position: int, letters: int, end: int, characters: Any) -> Any:
    """The end of the token at `position`, which begins with ASCII letters up to `letters`."""
    if letters == position:
        return _after_token(data, position, end, characters)
    return _after_word(data, letters, end, characters, LETTER)


@leaf
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
