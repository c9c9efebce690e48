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

from gristmill.core.compiled import compiled, entry, leaf

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SEED, _FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x9FB21C651E98DF25)
_SHINGLE_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_BLANK = np.uint64(0xA0761D6478BD642F)
_NONE = np.uint64(0)
_30, _27, _31, _1 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(1)
_6, _12, _18 = np.uint64(6), np.uint64(12), np.uint64(18)
_LOW = np.uint64(0x3F)
# SipHash's own constants.
_SIP_A, _SIP_B = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_SIP_C, _SIP_D = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_13, _16, _17, _21, _32 = (np.uint64(n) for n in (13, 16, 17, 21, 32))
_43, _47, _48, _51 = (np.uint64(n) for n in (43, 47, 48, 51))
_TWO_BYTES, _THREE_BYTES, _FOUR_BYTES = np.uint64(0xC0), np.uint64(0xE0), np.uint64(0xF0)
# Shingles are hashed in blocks that stay in the first-level cache: 16 KiB of 32-bit numbers.
_BLOCK = 4096

bytes_in = types.Array(types.uint8, 1, "C", readonly=True)
ints_in = types.Array(types.int64, 1, "C", readonly=True)
table_in = types.Array(types.uint32, 1, "C", readonly=True)


@compiled
def mix(x: Any) -> Any:
    """SplitMix64's finaliser without its increment."""
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@compiled
def _code_point(first: Any, second: Any, third: Any, fourth: Any) -> Any:
    """The code point that begins with the byte `first` >= 0xC0, and its length; bytes beyond it may be anything."""
    if first < _THREE_BYTES:
        return (first & np.uint64(0x1F)) << _6 | second & _LOW, 2
    if first < _FOUR_BYTES:
        return (first & np.uint64(0x0F)) << _12 | (second & _LOW) << _6 | third & _LOW, 3
    return (first & np.uint64(0x07)) << _18 | (second & _LOW) << _12 | (third & _LOW) << _6 | fourth & _LOW, 4


@leaf
def _round(a: Any, b: Any, c: Any, d: Any) -> Any:
    """SipHash's round."""
    a += b
    b = (b << _13 | b >> _51) ^ a
    a = a << _32 | a >> _32
    c += d
    d = (d << _16 | d >> _48) ^ c
    a += d
    d = (d << _21 | d >> _43) ^ a
    c += b
    b = (b << _17 | b >> _47) ^ c
    c = c << _32 | c >> _32
    return a, b, c, d


@leaf
def _letter(data: Any, at: int, last: Any, table: Any) -> Any:
    """The letter at `at`, as it is in the table, and where the next begins; no byte after `last` is read."""
    first = np.uint64(data[np.uint64(at)])
    if first < _TWO_BYTES:
        return np.uint64(table[first]), at + 1
    second, third = min(np.uint64(at + 1), last), min(np.uint64(at + 2), last)
    fourth = min(np.uint64(at + 3), last)
    code, length = _code_point(first, np.uint64(data[second]), np.uint64(data[third]), np.uint64(data[fourth]))
    return np.uint64(table[code]), at + length


@leaf
def _word_hash(data: Any, at: int, end: int, table: Any) -> Any:
    """SipHash-2-4 of a word's letters in lower case, three of 20 bits a block; the last block has their number."""
    a, b, c, d = _SIP_A, _SIP_B, _SIP_C, _SIP_D
    block, count, last = _NONE, 0, np.uint64(end - 1)
    while at < end:
        letter, at = _letter(data, at, last, table)
        block |= letter << np.uint64(20 * (count % 3))
        count += 1
        if count % 3 == 0:
            a, b, c, d = _round(*_round(a, b, c, d ^ block))
            a, block = a ^ block, _NONE
    block |= np.uint64(count) << np.uint64(40)
    a, b, c, d = _round(*_round(a, b, c, d ^ block))
    a, b, c, d = _round(*_round(*_round(*_round(a ^ block, b, c ^ np.uint64(0xFF), d))))
    return a ^ b ^ c ^ d


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
        leaving *= _SHINGLE_FACTOR
    hashed, inside, blank, begin = _SEED, False, False, at
    while count < out.size:
        letter, after = _NONE, at + 1
        if at < end:
            # An unsigned index spares the test for a negative one.
            first = np.uint64(data[np.uint64(at)])
            if first >= _TWO_BYTES:
                last = np.uint64(end - 1)
                second, third = min(np.uint64(at + 1), last), min(np.uint64(at + 2), last)
                fourth = min(np.uint64(at + 3), last)
                first, length = _code_point(
                    first, np.uint64(data[second]), np.uint64(data[third]), np.uint64(data[fourth])
                )
                after = at + length
            letter = np.uint64(table[first])
        alone = letter & _1 or characters
        if letter and not alone:
            begin = begin if inside else at
            hashed, inside, at = (hashed ^ letter) * _FACTOR, True, after
            continue
        if inside:
            unit, inside = (mix(hashed) if forgeable else _word_hash(data, begin, at, table)) | _1, False
            at = at if letter else after
        elif letter and blank and characters and units:
            unit = _BLANK
        elif letter:
            unit, at = mix((_SEED ^ letter) * _FACTOR) | _1, after
        elif at < end:
            at, blank = after, True
            continue
        else:
            break
        hashed, blank = _SEED, False
        rolling = rolling * _SHINGLE_FACTOR + unit - ring[slot] * leaving
        ring[slot] = unit
        slot = slot + 1 if slot + 1 < ngram else 0
        units += 1
        if units >= ngram:
            out[count] = mix(rolling)
            count += 1
    if count < out.size and 0 < units < ngram:
        out[count] = mix(rolling)
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
    key = mix(np.uint64(band) + _SEED)
    for row in range(band * rows, (band + 1) * rows):
        key = mix((key ^ np.uint64(minima[row])) * _FACTOR)
    return np.int64(key)


@entry(
    types.int64(
        bytes_in, ints_in, table_in, types.boolean, types.int64, types.uint32[:, ::1], types.int64,
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
    state, ring = np.empty(3, np.uint64), np.empty(ngram, np.uint64)
    block, low = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint32)
    minima = np.empty(permutations.shape[1], np.uint32)
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
        bytes_in, ints_in, table_in, types.boolean, types.int64, types.uint64[::1], types.int64[::1]
    )
)  # fmt: skip
def shingle(data: Any, offsets: Any, table: Any, characters: bool, ngram: int, out: Any, ends: Any) -> None:
    """All shingles of each text, in reading order: those of text i are out[ends[i] : ends[i + 1]]."""
    state, ring = np.empty(3, np.uint64), np.empty(ngram, np.uint64)
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
