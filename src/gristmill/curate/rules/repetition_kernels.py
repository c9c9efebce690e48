"""Repeated paragraphs, lines and n-grams of each document, compiled. Importing this module imports Numba (0.2 s).

Pieces of text are compared by 64-bit hashes, in one table of first sightings for all documents. Its size follows the
document with the most words: up to 64 bytes each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int16, int64, types, void

from gristmill.core.compiled import compiled, entry, maker
from gristmill.core.kernels.hashes import FACTOR, hash_bytes
from gristmill.core.kernels.lines import NEWLINE, line_end
from gristmill.core.kernels.memory import count, filled, longest_row, smallest
from gristmill.core.kernels.slots import begin_use, first_place, new_sightings
from gristmill.core.kernels.types import BYTES, FLOATS, HASHES, INTS, INTS32
from gristmill.core.kernels.utf8 import count_characters
from gristmill.curate.white_space import strip

# offsets, starts, ends, hashes, chars: the columns of `Words`.
_WORDS = types.Tuple((INTS, INTS32, INTS32, HASHES, INTS32))
# The sizes of n-grams, rising, and the share of a text that each size may fill.
_LIMITS = types.Tuple((INTS, FLOATS))

_KEEP = -1
_ONE = np.uint64(1)
_STEP_BACK = np.uint64(pow(int(FACTOR), -1, 1 << 64))


@compiled
def _skip_newlines(data: Any, at: int, end: int) -> Any:
    while at < end and data[at] == NEWLINE:
        at += 1
    return at


@compiled
def _repeated_segments(data: Any, begin: int, end: int, apart: int, table: Any) -> Any:
    """Segments between runs of `apart` or more newlines: how many, how many are copies, the characters of copies."""
    base, shift = begin_use(table, count(data[begin:end], NEWLINE) + 1)
    segments, copies, characters = 0, 0, 0
    start = after = begin
    while True:
        at = line_end(data, after, end)
        after = _skip_newlines(data, at, end)
        if after - at >= apart or at == end:
            if first_place(table, base, shift, hash_bytes(data, start, at), segments) < segments:
                copies += 1
                characters += count_characters(data, start, at)
            segments += 1
            start = after
        if at == end:
            return segments, copies, characters


@compiled
def _judge_segments(data: Any, paragraphs: Any, lines: Any, characters: int, limits: Any, table: Any) -> Any:
    """The first of the four limits that is passed, counted from 1, and the share that passes it; or KEEP."""
    for kind in range(2):
        begin, end = lines if kind else paragraphs
        segments, copies, copied = _repeated_segments(data, begin, end, 2 - kind, table)
        if copies / segments > limits[2 * kind]:
            return 2 * kind + 1, copies / segments
        if copied / characters > limits[2 * kind + 1]:
            return 2 * kind + 2, copied / characters
    return _KEEP, np.nan


@compiled
def _most_segments(data: Any, offsets: Any) -> Any:
    most = 0
    for row in range(offsets.size - 1):
        most = max(most, count(data[offsets[row] : offsets[row + 1]], NEWLINE))
    return most + 1


@entry(void(BYTES, INTS, BYTES, boolean, FLOATS, int16[::1], float64[::1]))
def judge_segments(data: Any, offsets: Any, kinds: Any, bare: bool, limits: Any, codes: Any, values: Any) -> None:
    """Judge paragraphs and lines: code 0 is an empty text, 1 to 4 the limits in their order.

    Paragraphs are those of the text without the white space around it; so are the lines if `bare`.
    """
    table = new_sightings(_most_segments(data, offsets))
    for row in range(offsets.size - 1):
        whole = offsets[row], offsets[row + 1]
        inner = strip(data, whole[0], whole[1], kinds)
        lines = inner if bare else whole
        codes[row], values[row] = 0, np.nan
        if lines[0] < lines[1]:
            characters = count_characters(data, whole[0], whole[1])
            codes[row], values[row] = _judge_segments(data, inner, lines, characters, limits, table)


@maker
def _new_sums(most: int) -> Any:
    """Running sums for up to `most` words: of hashes, the inverse power at each word, and of characters."""
    return filled(most + 1, 0, np.uint64), filled(most + 1, 0, np.uint64), filled(most + 1, 0, np.int64)


@compiled
def _sum_words(hashes: Any, chars: Any, sums: Any) -> None:
    """Sums of hashes times rising powers, under which n-grams are equal when their words are."""
    keys, inverses, lengths = sums
    power, inverse = _ONE, _ONE
    for place in range(hashes.size):
        inverses[place] = inverse
        keys[place + 1] = keys[place] + hashes[place] * power
        lengths[place + 1] = lengths[place] + chars[place]
        power *= FACTOR
        inverse *= _STEP_BACK


@compiled
def _sum_bytes(data: Any, begin: int, starts: Any, ends: Any, sums: Any) -> None:
    """Sums of bytes instead: n-grams are equal when their words, written without spaces, are."""
    keys, inverses, _ = sums
    power, inverse = _ONE, _ONE
    for place in range(starts.size):
        inverses[place] = inverse
        key = keys[place]
        for at in range(begin + starts[place], begin + ends[place]):
            key += (np.uint64(data[at]) + _ONE) * power
            power *= FACTOR
            inverse *= _STEP_BACK
        keys[place + 1] = key


@compiled
def _key(sums: Any, place: int, size: int) -> Any:
    """The hash of the n-gram of `size` words at `place`: equal wherever it stands."""
    return (sums[0][place + size] - sums[0][place]) * sums[1][place]


@compiled
def _length(sums: Any, place: int, size: int) -> Any:
    """The characters of the words of an n-gram."""
    return sums[2][place + size] - sums[2][place]


@compiled
def _longest(sums: Any, grams: int, size: int) -> Any:
    longest = 0
    for place in range(grams):
        longest = max(longest, _length(sums, place, size))
    return longest


@compiled
def _top(sums: Any, grams: int, size: int, table: Any, counts: Any) -> Any:
    """The most frequent n-gram, of several the one seen first: where it begins and how often it comes."""
    base, shift = begin_use(table, grams)
    top, most = 0, 1
    for place in range(grams):
        counts[place] = 0
        first = first_place(table, base, shift, _key(sums, place, size), place)
        counts[first] += 1
        if counts[first] > most or (counts[first] == most and first < top):
            top, most = first, counts[first]
    return top, most


@compiled
def _judge_top(sums: Any, words: int, least: int, characters: int, limits: Any, table: Any, counts: Any) -> Any:
    """The first size of n-gram whose top one, spaces included, fills more than its limit, and that share; or KEEP.

    No n-gram is more frequent than the most frequent of a smaller size, so most texts need one size to be counted.
    """
    most = words
    for i in range(limits[0].size):
        size, limit = limits[0][i], limits[1][i]
        grams = words - size + 1
        if grams < 1 or most * (_longest(sums, grams, size) + size - 1) / characters <= limit:
            continue
        top, most = _top(sums, grams, size, table, counts)
        share = most * (_length(sums, top, size) + size - 1) / characters
        if share > limit and most >= least:
            return i, share
    return _KEEP, np.nan


@compiled
def _covered(sums: Any, grams: int, size: int, table: Any) -> Any:
    """The characters of all words that stand in an n-gram seen before."""
    base, shift = begin_use(table, grams)
    covered, done = 0, 0
    for place in range(grams):
        if first_place(table, base, shift, _key(sums, place, size), place) < place:
            begin = max(place, done)
            done = place + size
            covered += _length(sums, begin, done - begin)
    return covered


@compiled
def _repeated(sums: Any, grams: int, size: int, table: Any) -> Any:
    """The characters of n-grams seen before: such a one is passed over whole, a new one by a word."""
    base, shift = begin_use(table, grams)
    repeated, place = 0, 0
    while place < grams:
        if first_place(table, base, shift, _key(sums, place, size), place) < place:
            repeated += _length(sums, place, size)
            place += size
        else:
            place += 1
    return repeated


@compiled
def _judge_repeated(sums: Any, words: int, covered: int, characters: int, limits: Any, table: Any) -> Any:
    """The first size of n-gram whose copies fill more than its limit, and that share; or KEEP."""
    for i in range(limits[0].size):
        size, limit = limits[0][i], limits[1][i]
        if words < size or covered / characters <= limit:
            continue
        share = _repeated(sums, words - size + 1, size, table) / characters
        if share > limit:
            return i, share
    return _KEEP, np.nan


@compiled
def _judge_copies(
    data: Any, begin: int, starts: Any, ends: Any, sums: Any, joined: bool, characters: int, limits: Any, table: Any
) -> Any:
    """As `_judge_repeated`, for a document whose words are summed.

    Copies of a size lie inside of the copies of every smaller size, so where those of the smallest cover no more than
    a limit nothing needs to be counted.
    """
    words, size = starts.size, limits[0][0]
    if words < size:
        return _KEEP, np.nan
    covered = _covered(sums, words - size + 1, size, table)
    if joined and covered / characters > smallest(limits[1]):
        _sum_bytes(data, begin, starts, ends, sums)
    return _judge_repeated(sums, words, covered, characters, limits, table)


@entry(void(BYTES, INTS, _WORDS, boolean, _LIMITS, _LIMITS, int64, int16[::1], float64[::1]))
def judge_grams(
    data: Any, offsets: Any, words: Any, joined: bool, tops: Any, copies: Any, code: int, codes: Any, values: Any
) -> None:
    """Judge the n-grams of documents that are kept so far; `code` is that of the first limit.

    `joined` compares copies by their words written without spaces, and lets an n-gram that comes once be the top one.
    """
    bounds, starts, ends, hashes, chars = words
    most = longest_row(bounds)
    table, sums, counts = new_sightings(most), _new_sums(most), filled(most, 0, np.int32)
    for row in range(offsets.size - 1):
        if codes[row] != _KEEP:
            continue
        begin, own = offsets[row], slice(bounds[row], bounds[row + 1])
        length = count_characters(data, begin, offsets[row + 1])
        _sum_words(hashes[own], chars[own], sums)
        found, share = _judge_top(sums, hashes[own].size, 1 if joined else 2, length, tops, table, counts)
        if found == _KEEP and copies[0].size:
            found, share = _judge_copies(data, begin, starts[own], ends[own], sums, joined, length, copies, table)
            found += tops[0].size if found != _KEEP else 0
        if found != _KEEP:
            codes[row], values[row] = code + found, share
