"""Texts to n-gram hashes to MinHash keys, straight from UTF-8 bytes. Importing this module imports Numba.

A text is a sequence of *units*: lower-cased words, or characters of scripts without spaces; or, by characters, the
letters with one blank for whatever lies between words. A *shingle* is `ngram` units in a row, as a 64-bit hash; a
text with fewer units is one shingle. What is computed here is in saved indexes: the golden test holds it.

Candidates are found by a fast hash of words. What decides about them are sets of shingles, whose words are hashed by
SipHash: whoever wants other words with the same hashes as somebody's text has to try 2^64 for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.hashing import GOLDEN
from gristmill.core.kernels.hashes import FACTOR, finalise
from gristmill.core.kernels.memory import empty
from gristmill.core.kernels.siphash import START, add_block, finish
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.core.kernels.utf8 import decode

_LETTER_FACTOR = np.uint64(0x9FB21C651E98DF25)
_BLANK = np.uint64(0xA0761D6478BD642F)
_NONE, _1 = np.uint64(0), np.uint64(1)
# Shingles are hashed in blocks that stay in the first-level cache: 16 KiB of 32-bit numbers.
_BLOCK = 4096

_UNITS = types.Array(types.uint32, 1, "C", readonly=True)


@compiled
def _word_hash(data: Any, at: int, end: int, table: Any) -> Any:
    """SipHash of a word's letters in lower case, three of 20 bits a block; the last block has their number."""
    a, b, c, d = START
    block, count = _NONE, 0
    while at < end:
        code, size = decode(data, at)
        block |= np.uint64(table[code]) << np.uint64(20 * (count % 3))
        at, count = at + size, count + 1
        if count % 3 == 0:
            a, b, c, d = add_block(a, b, c, d, block)
            block = _NONE
    return finish(*add_block(a, b, c, d, block | np.uint64(count) << np.uint64(40)))


@compiled
def _fill(data: Any, end: int, table: Any, characters: bool, forgeable: bool, state: Any, ring: Any, out: Any) -> int:
    """Put the next shingles into `out`, as many as fit; returns how many: fewer only when the text is done.

    `state` is (position, units so far, rolling hash), `ring` the last units; both go on where the last call ended.
    One long loop, because a call for each character, with its counted references to arrays, takes twice the time.
    Each round reads a character and completes at most one unit; what ends a word is read again where it is a unit.
    """
    at, units, rolling = np.int64(state[0]), np.int64(state[1]), state[2]
    ngram, slot, count = ring.size, units % ring.size, 0
    leaving = _1
    for _ in range(ngram):
        leaving *= FACTOR
    hashed, inside, blank, begin = GOLDEN, False, False, at
    while count < out.size:
        letter, after = _NONE, at + 1
        if at < end:
            code, size = decode(data, at)
            letter, after = np.uint64(table[code]), at + size
        alone = letter & _1 or characters
        if letter and not alone:
            begin = begin if inside else at
            hashed, inside, at = (hashed ^ letter) * _LETTER_FACTOR, True, after
            continue
        if inside:
            unit, inside = (finalise(hashed) if forgeable else _word_hash(data, begin, at, table)) | _1, False
            at = at if letter else after
        elif letter and blank and characters and units:
            unit = _BLANK
        elif letter:
            unit, at = finalise((GOLDEN ^ letter) * _LETTER_FACTOR) | _1, after
        elif at < end:
            at, blank = after, True
            continue
        else:
            break
        hashed, blank = GOLDEN, False
        rolling = rolling * FACTOR + unit - ring[slot] * leaving
        ring[slot] = unit
        slot = slot + 1 if slot + 1 < ngram else 0
        units += 1
        if units >= ngram:
            out[count] = finalise(rolling)
            count += 1
    if count < out.size and 0 < units < ngram:
        out[count] = finalise(rolling)
        count, units = count + 1, ngram
    state[0], state[1], state[2] = np.uint64(at), np.uint64(units), rolling
    return count


@compiled
def _restart(begin: int, state: Any, ring: Any) -> None:
    state[0] = np.uint64(begin)
    state[1] = state[2] = _NONE
    ring[:] = _NONE


@compiled
def _lower(minima: Any, permutations: Any, shingles: Any, count: int) -> None:
    """Lower each permutation's minimum by these shingles: (x ^ key) * odd, modulo 2^32.

    The inner loop runs over what there is more of: 7 ns a shingle for long texts, 16 ns (and not 70) for short ones.
    """
    if count < minima.size:
        for i in range(count):
            for p in range(minima.size):
                value = np.uint32((shingles[i] ^ permutations[0, p]) * permutations[1, p])
                minima[p] = value if value < minima[p] else minima[p]
        return
    for p in range(minima.size):
        key, odd, least = permutations[0, p], permutations[1, p], minima[p]
        for i in range(count):
            value = np.uint32((shingles[i] ^ key) * odd)
            least = value if value < least else least
        minima[p] = least


@compiled
def _band_key(minima: Any, band: int, rows: int) -> Any:
    key = finalise(np.uint64(band) + GOLDEN)
    for row in range(band * rows, (band + 1) * rows):
        key = finalise((key ^ np.uint64(minima[row])) * _LETTER_FACTOR)
    return np.int64(key)


@entry(
    types.int64(
        BYTES, INTS, _UNITS, types.boolean, types.int64, types.uint32[:, ::1], types.int64,
        types.int64[::1], types.int64[:, ::1],
    )
)  # fmt: skip
def sign(
    data: Any,
    offsets: Any,
    table: Any,
    characters: bool,
    ngram: int,
    permutations: Any,
    rows: int,
    found: Any,
    keys: Any,
) -> int:
    """Band keys by text: keys[band, i] belongs to text found[i]; returns how many texts have any unit."""
    state, ring = empty(3, np.uint64), empty(ngram, np.uint64)
    block, low = empty(_BLOCK, np.uint64), empty(_BLOCK, np.uint32)
    minima = empty(permutations.shape[1], np.uint32)
    signed = 0
    for text in range(offsets.size - 1):
        end = offsets[text + 1]
        _restart(offsets[text], state, ring)
        count = _fill(data, end, table, characters, True, state, ring, block)
        if count == 0:
            continue
        minima[:] = np.uint32(0xFFFFFFFF)
        while count:
            for i in range(count):
                low[i] = np.uint32(block[i])
            _lower(minima, permutations, low, count)
            count = _fill(data, end, table, characters, True, state, ring, block) if count == _BLOCK else 0
        for band in range(keys.shape[0]):
            keys[band, signed] = _band_key(minima, band, rows)
        found[signed] = text
        signed += 1
    return signed


@entry(
    types.void(
        BYTES, INTS, _UNITS, types.boolean, types.int64, types.uint64[::1], types.int64[::1]
    )
)  # fmt: skip
def shingle(data: Any, offsets: Any, table: Any, characters: bool, ngram: int, out: Any, ends: Any) -> None:
    """All shingles of each text, in reading order: those of text i are out[ends[i] : ends[i + 1]]."""
    state, ring = empty(3, np.uint64), empty(ngram, np.uint64)
    count = 0
    for text in range(offsets.size - 1):
        ends[text] = count
        end = offsets[text + 1]
        _restart(offsets[text], state, ring)
        count += _fill(data, end, table, characters, False, state, ring, out[count:])
    ends[offsets.size - 1] = count


@entry(types.int64(types.uint64[::1], types.int64[::1]))
def unique(shingles: Any, ends: Any) -> int:
    """Close the ranks, in place, over repeats inside each sorted text; `ends` follow; returns what is left."""
    count, begin = 0, ends[0]
    for text in range(ends.size - 1):
        first, end = count, ends[text + 1]
        for i in range(begin, end):
            if count == first or shingles[i] != shingles[count - 1]:
                shingles[count] = shingles[i]
                count += 1
        begin, ends[text + 1] = end, count
    return count
