"""C4's line by line edit of each document, compiled. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
from numba import boolean, int16, int64, types, uint8, void

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.lines import NEWLINE, break_size
from gristmill.core.kernels.memory import common, copy, holds, place_of
from gristmill.core.kernels.types import BYTES, INTS, INTS32
from gristmill.core.kernels.utf8 import begins, decode
from gristmill.curate.characters import KIND, SPACE
from gristmill.curate.white_space import skip_spaces, strip
from gristmill.curate.word_kernels import PUNCT, SENTENCE_END

# The switches of a rule: the steps of C4, that `'` ends a sentence, that words are counted when citations are gone.
CITATIONS, TERMINAL, LOREM_IPSUM, JAVASCRIPT = 1, 2, 4, 8
CURLY_BRACKET, POLICY, APOSTROPHE, WORDS_AFTER = 16, 32, 64, 128

# The fate of a line; the positions of reasons are that of its document too.
_DROP_LINE, _KEEP, _LOREM, _CURLY = -2, -1, 0, 1

# The bytes that `edit` may read after its output.
READ_AHEAD = 3

# switches, the least words of a line, the most characters of a word.
_OPTIONS = types.UniTuple(int64, 3)
# offsets, starts, ends, flags: the columns of `Words`.
_WORDS = types.Tuple((INTS, INTS32, INTS32, BYTES))

_BLANK, _OPEN, _CLOSE, _BRACE = b" []{"
_POINT, _QUESTION, _EXCLAMATION, _QUOTE, _APOSTROPHE = b".?!\"'"
_EDIT, _NEEDED = np.frombuffer(b"edit]", np.uint8), np.frombuffer(b"citation needed]", np.uint8)

# The first of the ten digits of each script, as `\\d` of Python's regular expressions knows them.
_ZEROS = np.array([code for code in range(0x40000) if unicodedata.decimal(chr(code), -1) == 0], np.int64)

_PHRASES = {
    b"lorem ipsum": LOREM_IPSUM,
    b"javascript": JAVASCRIPT,
    b"{": CURLY_BRACKET,
    b"terms of use": POLICY,
    b"privacy policy": POLICY,
    b"cookie policy": POLICY,
    b"uses cookies": POLICY,
    b"use of cookies": POLICY,
    b"use cookies": POLICY,
}
_LETTERS = np.array([list(phrase.ljust(16, b"\0")) for phrase in _PHRASES], np.uint8)
_TESTS = np.array(list(_PHRASES.values()), np.int64)


@compiled
def _lower(data: Any, at: int, end: int) -> Any:
    """The byte at `at` in lower case, and its size: besides capitals the Kelvin sign becomes ASCII, a k.

    So does U+0130, as an i with a dot; but no phrase goes on after its i with that dot.
    """
    byte = data[at]
    if byte == 0xE2 and at + 2 < end and data[at + 1] == 0x84 and data[at + 2] == 0xAA:
        return 107, 3
    return (byte | 32 if 65 <= byte <= 90 else byte), 1


@compiled
def _reads(data: Any, at: int, end: int, letters: Any) -> Any:
    """Whether data[at:end] begins with these letters, up to their first zero, in lower case."""
    for letter in letters:
        if letter == 0:
            return True
        if at == end:
            return False
        byte, size = _lower(data, at, end)
        if byte != letter:
            return False
        at += size
    return True


@compiled
def _may_hold_phrase(data: Any) -> Any:
    """Whether four bytes in a row hint at a phrase: vector instructions, after which most lines are done with."""
    found = False
    for at in range(data.size - READ_AHEAD):
        first, second, third, fourth = data[at] | 32, data[at + 1] | 32, data[at + 2] | 32, data[at + 3] | 32
        java = (first == 118) & (second == 97) & (third == 115)  # vas
        privacy = (first == 118) & (second == 97) & (third == 99) & (fourth == 121)  # vacy
        cookie = (first == 107) & (second == 105) & (third == 101)  # kie
        kelvin = (data[at] == 0x84) & (data[at + 1] == 0xAA)
        lorem = (first == 109) & (second == 32) & (third == 105) & (fourth == 112)  # m ip
        terms = (first == 102) & (second == 32) & (third == 117) & (fourth == 115)  # f us
        found |= java | privacy | cookie | kelvin | lorem | terms | (data[at] == _BRACE)
    return found


@compiled
def _phrases(data: Any, begin: int, end: int) -> Any:
    """The tests that a line does not pass, as a sum of their switches; READ_AHEAD bytes after it must be readable."""
    found = 0
    if _may_hold_phrase(data[begin : end + READ_AHEAD]):
        for at in range(begin, end):
            for i in range(_TESTS.size):
                if data[at] | 32 == _LETTERS[i, 0] and _reads(data, at, end, _LETTERS[i]):
                    found |= _TESTS[i]
    return found


@compiled
def _line_end(data: Any, at: int, end: int) -> Any:
    """The end of the line at `at`, and the beginning of the next."""
    while at < end:
        size = break_size(data, at, end)
        if size:
            return at, at + size
        at += 1
    return end, end


@compiled
def _has_words(data: Any, begin: int, end: int, least: int, kinds: Any) -> Any:
    """Whether white space cuts a line into so many words."""
    words, inside = 0, False
    while begin < end and words < least:
        code, size = decode(data, begin)
        space = kinds[code] & KIND == SPACE
        words += not space and not inside
        inside = not space
        begin += size
    return words >= least


@compiled
def _has_long_word(data: Any, begin: int, end: int, most: int, kinds: Any) -> Any:
    length = 0
    while begin < end and length <= most:
        code, size = decode(data, begin)
        length = 0 if kinds[code] & KIND == SPACE else length + 1
        begin += size
    return length > most


@compiled
def _is_decimal(code: int) -> Any:
    block = place_of(_ZEROS, code + 1) - 1
    return block >= 0 and code - _ZEROS[block] < 10


@compiled
def _after_citation(data: Any, at: int, end: int) -> Any:
    """The end of the `[12]`, `[]`, `[edit]` or `[citation needed]` at `at`; `at` itself if there is none."""
    for letters in (_EDIT, _NEEDED):
        after = at + 1 + letters.size
        if after <= end and common(data, at + 1, letters, 0, letters.size) == letters.size:
            return after
    after = at + 1
    while after < end and data[after] != _CLOSE:
        code, size = decode(data, after)
        if not _is_decimal(code):
            return at
        after += size
    return after + 1 if after < end else at


@compiled
def _copy_without_citations(data: Any, begin: int, end: int, out: Any, at: int) -> Any:
    while begin < end:
        after = _after_citation(data, begin, end) if data[begin] == _OPEN else begin
        if after > begin:
            begin = after
        else:
            out[at] = data[begin]
            at, begin = at + 1, begin + 1
    return at


@compiled
def _is_terminal(data: Any, begin: int, end: int, apostrophe: bool) -> Any:
    """Whether a line ends as a sentence does, and not in an ellipsis."""
    if begin == end:
        return False
    last = data[end - 1]
    if last == _POINT:
        return not (end - begin >= 3 and data[end - 2] == _POINT and data[end - 3] == _POINT)
    return last in (_QUESTION, _EXCLAMATION, _QUOTE) or (last == _APOSTROPHE and apostrophe)


@compiled
def _judge_phrases(data: Any, begin: int, end: int, switches: int) -> Any:
    """The fate of a line by what it mentions, and of its document with it."""
    found = _phrases(data, begin, end) & switches
    if found & LOREM_IPSUM:
        return _LOREM
    if found & JAVASCRIPT:
        return _DROP_LINE
    if found & CURLY_BRACKET:
        return _CURLY
    return _DROP_LINE if found & POLICY else _KEEP


@compiled
def _edit_line(data: Any, begin: int, end: int, kinds: Any, options: Any, out: Any, at: int) -> Any:
    """Write one line at out[at:] and judge it there: its fate and its end."""
    switches, least, most = options
    if end - begin > most and _has_long_word(data, begin, end, most, kinds):
        return _DROP_LINE, at
    if switches & CITATIONS and holds(data[begin:end], _OPEN):
        after = _copy_without_citations(data, begin, end, out, at)
    else:
        after = copy(data, begin, end, out, at)
    if switches & TERMINAL and not _is_terminal(out, at, after, switches & APOSTROPHE != 0):
        return _DROP_LINE, at
    edited = switches & WORDS_AFTER != 0
    if not (_has_words(out, at, after, least, kinds) if edited else _has_words(data, begin, end, least, kinds)):
        return _DROP_LINE, at
    return _judge_phrases(out, at, after, switches), after


@compiled
def _close_line(out: Any, start: int, at: int, first: int, after: int, kinds: Any) -> Any:
    """Join out[first:after] to what was kept before it; a text does not begin with white space. The new end."""
    if at > start:
        out[at] = NEWLINE
        return after
    return copy(out, skip_spaces(out, first, after, kinds), after, out, start)


@compiled
def _edit_document(data: Any, begin: int, end: int, kinds: Any, options: Any, out: Any, start: int) -> Any:
    """Write the lines to keep, joined by newlines, at out[start:]: the fate, the end and the number of lines."""
    lines, at = 0, start
    while begin < end:
        stop, following = _line_end(data, begin, end)
        first, last = strip(data, begin, stop, kinds)
        room = at + (at > start)
        fate, after = _edit_line(data, first, last, kinds, options, out, room)
        if fate >= 0:
            return fate, start, 0
        if fate == _KEEP:
            lines += 1
            at = _close_line(out, start, at, room, after, kinds)
        begin = following
    return _KEEP, at, lines


@compiled
def _goes_on(data: Any, at: int, end: int) -> Any:
    return at < end and data[at] != NEWLINE


@compiled
def _is_space_token(data: Any, begin: int, end: int) -> Any:
    """Whether white space is a token: it is unless it is a single blank, or none, before the line ends."""
    return begin < end and data[begin] != NEWLINE and (data[begin] != _BLANK or _goes_on(data, begin + 1, end))


@entry(void(BYTES, INTS, BYTES, _OPTIONS, int16[::1], int64[::1], boolean[::1], uint8[::1], int64[::1]))
def edit(
    data: Any, offsets: Any, kinds: Any, options: Any, codes: Any, lines: Any, ragged: Any, out: Any, bounds: Any
) -> None:
    """Write the edited documents to `out`, end to end, with `bounds`; dropped ones are empty.

    `ragged` tells where the last line ended in white space that is a token of its own, before it was cut off.
    """
    bounds[0] = 0
    for row in range(offsets.size - 1):
        start = bounds[row]
        codes[row], end, lines[row] = _edit_document(data, offsets[row], offsets[row + 1], kinds, options, out, start)
        bounds[row + 1] = strip(out, start, end, kinds)[1]
        ragged[row] = _is_space_token(out, bounds[row + 1], end)


@compiled
def _sentence_breaks(data: Any, begin: int, starts: Any, ends: Any, flags: Any, ragged: bool) -> Any:
    """How often a sentence begins inside of a line: at the first token after its end that is no punctuation."""
    breaks, ended, before = 0, False, begin
    for i in range(starts.size):
        if begin + starts[i] > before:
            if ended and _is_space_token(data, before, begin + starts[i]):
                breaks, ended = breaks + 1, False
            ended = ended and not holds(data[before : begin + starts[i]], NEWLINE)
        if flags[i] & SENTENCE_END:
            ended = True
        elif ended and not flags[i] & PUNCT:
            breaks, ended = breaks + 1, False
        before = begin + ends[i]
    return breaks + (ended and ragged)


@entry(void(BYTES, INTS, _WORDS, boolean[::1], int64[::1]))
def add_sentence_breaks(data: Any, offsets: Any, words: Any, ragged: Any, sentences: Any) -> None:
    """Add to each document's lines the sentences that begin inside of them."""
    bounds, starts, ends, flags = words
    for row in range(offsets.size - 1):
        own = slice(bounds[row], bounds[row + 1])
        sentences[row] += _sentence_breaks(data, offsets[row], starts[own], ends[own], flags[own], ragged[row])


@compiled
def _long_lines(data: Any, begin: int, end: int, least: int) -> Any:
    found, length = 0, 0
    for at in range(begin, end):
        if data[at] == NEWLINE:
            found += length >= least
            length = 0
        else:
            length += begins(data[at])
    return found + (length >= least)


@entry(void(BYTES, INTS, int64, int64[::1]))
def count_long_lines(data: Any, offsets: Any, least: int, counts: Any) -> None:
    """Count each document's lines of at least so many characters."""
    for row in range(offsets.size - 1):
        counts[row] = _long_lines(data, offsets[row], offsets[row + 1], least)
