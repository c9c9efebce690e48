"""Runs of words and their hashes, compiled. Importing this module imports Numba (0.2 s), so import it where it is used.

A run's hash is a polynomial of its words' hashes: a document's words are hashed once, and each run of any length
costs one multiplication. Words are compared by `folds`: what a character counts as (see `decontaminate`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry, maker
from gristmill.core.hashing import GOLDEN
from gristmill.core.kernels.hashes import FACTOR, finalise
from gristmill.core.kernels.memory import empty, filled, largest, longest_row, place_of
from gristmill.core.kernels.types import BYTES, HASHES, INTS, INTS32
from gristmill.core.kernels.utf8 import decode

# What `folds` says besides the character: it is a word by itself; it belongs to the character before it.
SINGLE, MARK = 1 << 30, 1 << 29
# It is neither part of a word nor the end of one; it ends a word.
IGNORED, SEPARATOR = -1, 0

# hashes (sorted), begins, ends, data, lengths, filters, filter_offsets: an index as the search reads it.
INDEX = types.Tuple((HASHES, INTS, INTS, BYTES, INTS, HASHES, INTS))
# hashes, rows, begins, ends: the runs of words of some texts.
RUNS = types.Tuple((types.uint64[::1], types.int64[::1], types.int64[::1], types.int64[::1]))

# A document is searched in pieces of this many words: 24 KB, which the nearest cache holds.
_WORDS_AT_ONCE = 1024


@compiled
def _joins(first: int, fold: int) -> Any:
    """Whether a character goes on with the word that began with `first`."""
    return first > 0 and fold > 0 and (fold & MARK or (fold < MARK and first < MARK))


@compiled
def _run_hash(total: Any, before: Any, power: Any, length: int) -> Any:
    """The hash of `length` words, from the sums up to the last of them and up to the word before the first."""
    return finalise(total - before * power + np.uint64(length) * GOLDEN)


@compiled
def _power(length: int) -> Any:
    power = np.uint64(1)
    for _ in range(length):
        power *= FACTOR
    return power


@compiled
def _read_words(data: Any, position: int, end: int, folds: Any, words: Any, count: int) -> Any:
    """Append the words from `position` on while there is room; where reading stopped, and how many there are now.

    words is (starts, ends, sums); sums[i] is the polynomial of the first i words and has room for one more.
    """
    # One loop for words and what is between them: twice as fast as a function for each.
    starts, ends, sums = words
    first, hashed = np.int32(SEPARATOR), GOLDEN
    while position < end:
        code, size = decode(data, position)
        fold = folds[code]
        if _joins(first, fold):
            hashed = (hashed ^ np.uint64(fold)) * FACTOR
        elif fold != IGNORED:
            if first > 0:
                ends[count], sums[count + 1] = position, sums[count] * FACTOR + finalise(hashed)
                count += 1
            if count == starts.size:
                return position, count
            starts[count], first, hashed = position, fold, (GOLDEN ^ np.uint64(fold)) * FACTOR
        position += size
    if first > 0:
        ends[count], sums[count + 1] = end, sums[count] * FACTOR + finalise(hashed)
        count += 1
    return end, count


@maker
def _room_for(words: int) -> Any:
    return empty(words, np.int64), empty(words, np.int64), filled(words + 1, 0, np.uint64)


@compiled
def _run_length(words: int, ngram: int, min_words: int) -> Any:
    """How long the runs of a text are: the whole text where it is short, 0 where it is too short."""
    return ngram if words >= ngram else words if words >= min_words else 0


@entry(RUNS(BYTES, INTS, INTS32, types.int64, types.int64, types.int64[::1]))
def make_runs(data: Any, offsets: Any, folds: Any, ngram: int, min_words: int, lengths: Any) -> Any:
    """All runs of words of all texts, in order; lengths[row] is that of its runs."""
    room, words = offsets[-1] + 1, _room_for(longest_row(offsets) + 1)
    hashes, runs, made = empty(room, np.uint64), empty((3, room), np.int64), 0
    for row in range(offsets.size - 1):
        _, count = _read_words(data, offsets[row], offsets[row + 1], folds, words, 0)
        starts, ends, sums = words
        length = lengths[row] = _run_length(count, ngram, min_words)
        for last in range(length, count + 1 if length else 0):
            hashes[made] = _run_hash(sums[last], sums[last - length], _power(length), length)
            runs[0, made], runs[1, made], runs[2, made] = row, starts[last - length], ends[last - 1]
            made += 1
    return hashes[:made].copy(), runs[0, :made].copy(), runs[1, :made].copy(), runs[2, :made].copy()


@compiled
def _next_fold(data: Any, position: int, end: int, folds: Any, first: int) -> Any:
    """The next character of a run of words from `position` on: what it counts as, whether it begins a word, its end.

    It is 0 at the end of the run; `first` is what the word before began with.
    """
    while position < end:
        code, size = decode(data, position)
        fold, position = folds[code], position + size
        if fold > 0:
            return fold, not _joins(first, fold), position
        if fold != IGNORED:
            first = SEPARATOR
    return np.int32(SEPARATOR), True, end


@compiled
def _same_words(data: Any, begin: int, end: int, other: Any, other_begin: int, other_end: int, folds: Any) -> Any:
    """Whether two runs, each from a word's start to a word's end, have the same words."""
    first = other_first = np.int32(SEPARATOR)
    while True:
        fold, begins, begin = _next_fold(data, begin, end, folds, first)
        other_fold, other_begins, other_begin = _next_fold(other, other_begin, other_end, folds, other_first)
        if fold != other_fold or begins != other_begins:
            return False
        if fold == SEPARATOR:
            return True
        if begins:
            first = other_first = fold


@entry(types.void(BYTES, HASHES, INTS, INTS, INTS32, types.boolean[::1]))
def mark_new(data: Any, hashes: Any, begins: Any, ends: Any, folds: Any, new: Any) -> None:
    """Which runs, sorted by hash, have other words than all before them with the same hash."""
    for i in range(hashes.size):
        new[i] = True
        other = i - 1
        while other >= 0 and hashes[other] == hashes[i] and new[i]:
            new[i] = not _same_words(data, begins[i], ends[i], data, begins[other], ends[other], folds)
            other -= 1


@compiled
def _log2(number: int) -> Any:
    log = 0
    while number > 1:
        number, log = number >> 1, log + 1
    return log


@entry(types.void(HASHES, types.uint64[::1]))
def fill_filter(hashes: Any, bits: Any) -> None:
    """Set the bit that each hash's first bits name; a power of two of them."""
    shift = np.uint64(64 - _log2(bits.size * 64))
    for hashed in hashes:
        bit = hashed >> shift
        bits[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@compiled
def _lookup(hashed: Any, data: Any, begin: int, end: int, index: Any, folds: Any) -> Any:
    """The row of the index that has these words, or -1."""
    hashes, begins, ends, texts, _, _, _ = index
    place = place_of(hashes, hashed)
    while place < hashes.size and hashes[place] == hashed:
        if _same_words(data, begin, end, texts, begins[place], ends[place], folds):
            return place
        place += 1
    return -1


@compiled
def _match(data: Any, words: Any, first: int, last: int, length: int, bits: Any, index: Any, folds: Any) -> Any:
    """Among the runs of `length` words that end with word first to last - 1: (row of the index, word after the run).

    Few runs pass the filter, and none waits for another: the processor asks for many of its cells at once.
    """
    starts, ends, sums = words
    power, shift = _power(length), np.uint64(64 - _log2(bits.size * 64))
    for after in range(max(first + 1, length), last + 1):
        hashed = _run_hash(sums[after], sums[after - length], power, length)
        bit = hashed >> shift
        if (bits[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
            place = _lookup(hashed, data, starts[after - length], ends[after - 1], index, folds)
            if place >= 0:
                return place, after
    return -1, last


@compiled
def _first_match(data: Any, words: Any, first: int, last: int, index: Any, folds: Any) -> Any:
    """Among runs of all lengths the one that ends first: (row of the index or -1, begin, end)."""
    starts, ends, _ = words
    lengths, filters, bounds = index[4], index[5], index[6]
    best, begin = -1, 0
    for i in range(lengths.size):
        bits = filters[bounds[i] : bounds[i + 1]]
        place, after = _match(data, words, first, last, lengths[i], bits, index, folds)
        if place >= 0:
            best, begin, last = place, starts[after - lengths[i]], after - 1
    return best, begin, ends[last] if best >= 0 else 0


@compiled
def _keep_last(words: Any, count: int, kept: int) -> None:
    """The last `kept` words become the first."""
    starts, ends, sums = words
    for i in range(kept):
        starts[i], ends[i] = starts[count - kept + i], ends[count - kept + i]
    for i in range(kept + 1):
        sums[i] = sums[count - kept + i]


@compiled
def _search(data: Any, position: int, end: int, folds: Any, index: Any, words: Any) -> Any:
    """A document's first run of words that is in the index: (row there or -1, begin, end)."""
    kept, count, longest = 0, 0, largest(index[4])
    while position < end:
        position, count = _read_words(data, position, end, folds, words, kept)
        found = _first_match(data, words, kept, count, index, folds)
        if found[0] >= 0:
            return found
        kept = min(count, longest - 1)
        _keep_last(words, count, kept)
    return -1, end, end


@entry(types.void(BYTES, INTS, INTS32, INDEX, types.int64[:, ::1]))
def search(data: Any, offsets: Any, folds: Any, index: Any, found: Any) -> None:
    """Each document's first run of words that is in the index: (row there or -1, begin, end)."""
    words = _room_for(_WORDS_AT_ONCE + largest(index[4]))
    for row in range(offsets.size - 1):
        place, begin, end = _search(data, offsets[row], offsets[row + 1], folds, index, words)
        found[row, 0], found[row, 1], found[row, 2] = place, begin, end
