"""A hash table from chunks (what stands between white space) to their words, compiled; lazily imported, as Numba is.

A *table* is (slots, known): a slot holds the hash of a chunk (0: empty) and the row of its first word in `known`.
Slots are a power of two and at most half full. Records, not columns: a look at a chunk costs two lines of cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.hashes import hash_bytes
from gristmill.core.kernels.memory import holds
from gristmill.core.kernels.slots import key_of, slot_of
from gristmill.core.kernels.types import BYTES, HASHES, INTS
from gristmill.core.kernels.utf8 import decode
from gristmill.curate.characters import KIND, SPACE
from gristmill.curate.chunk_tokenizer import MAX_CHARS, RULES, cut_chunk
from gristmill.curate.white_space import skip_spaces
from gristmill.curate.word_kernels import ALPHA, COLUMNS, SENTENCE_END, WORD, letters_end, measure

SLOT = np.dtype([("key", np.uint64), ("first", np.int64)])
# `start` and `end` are bytes from the chunk's own start; `last` is 1 at the chunk's last word.
KNOWN = np.dtype(
    [
        ("hash", np.uint64),
        ("start", np.int32),
        ("end", np.int32),
        ("chars", np.int32),
        ("flags", np.uint8),
        ("last", np.uint8),
        # A record without gaps: numpy closes them when it joins arrays.
        ("unused", np.uint16),
    ]
)

_SLOTS = types.Array(from_dtype(SLOT), 1, "C")
TABLE = types.Tuple((_SLOTS, types.Array(from_dtype(KNOWN), 1, "C")))
# The classes of characters, spaCy's rules, its special cases of ASCII letters, the characters that end a sentence.
RULEBOOK = types.Tuple((BYTES, RULES, HASHES, INTS))
# Where a scan stands: document, position in the data, words so far, stand-ins among them, twice the chunks to ask for,
# rows of the table in use, chunks in it.
STATE = types.int64[::1]
DOCUMENT, POSITION, WORDS, STAND_INS, ASKED, ROWS, CHUNKS = range(7)

# Why a scan stopped: all done or chunks to ask for; no room for words; no room for chunks.
ASK, COLUMNS_FULL, TABLE_FULL = 0, 1, 2
# A chunk that is left to Python has no row yet, and a stand-in among the words.
_PENDING = -1
_STAND_IN = 0x80
# What chunks are split with: characters, their places and where tokens begin.
_DESK = types.Tuple((types.int32[::1], types.int64[::1], types.boolean[::1]))


@compiled
def _slot(slots: Any, key: Any) -> Any:
    """The slot of `key`, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    slot = key & mask
    while slots[slot].key != 0 and slots[slot].key != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def _ends_chunk(data: Any, position: int, characters: Any) -> Any:
    """Whether white space begins here; outside of ASCII it does so with one of four bytes."""
    byte = data[position]
    if byte < 0x80:
        return characters[byte] & KIND == SPACE
    return (byte == 0xC2 or (0xE1 <= byte <= 0xE3)) and characters[decode(data, position)[0]] & KIND == SPACE


@compiled
def _chunk_end(data: Any, position: int, end: int, characters: Any) -> Any:
    while position < end and not _ends_chunk(data, position, characters):
        position += 1
    return position


@compiled
def _learn_word(data: Any, base: int, begin: int, end: int, characters: Any, sentence_ends: Any, word: Any) -> None:
    """Enter data[begin:end] as a word of the chunk that begins at `base`."""
    word.start, word.end = begin - base, end - base
    word.hash = hash_bytes(data, begin, end)
    chars, flags = measure(data, begin, end, characters)
    if chars == 1 and holds(sentence_ends, decode(data, begin)[0]):
        flags |= SENTENCE_END
    word.chars, word.flags, word.last = chars, flags, 0


@compiled
def _learn_here(data: Any, begin: int, end: int, desk: Any, rulebook: Any, table: Any, state: Any) -> Any:
    """Enter the words of a chunk that compiled code can split; False where it is left to Python."""
    characters, rules, _, sentence_ends = rulebook
    known = table[1]
    codes, places, cuts = desk
    size = cut_chunk(data, begin, end, rules, codes, places, cuts)
    if size == 0:
        return False
    first = 0
    for k in range(1, size + 1):
        if cuts[k]:
            _learn_word(data, begin, places[first], places[k], characters, sentence_ends, known[state[ROWS]])
            first = k
            state[ROWS] += 1
    known[state[ROWS] - 1].last = 1
    return True


@compiled
def _meet(data: Any, begin: int, end: int, slot: Any, key: Any, desk: Any, rulebook: Any, table: Any, misses: Any,
          state: Any) -> None:  # fmt: skip
    """Enter a chunk: with its words, or pending and among those to ask for."""
    slots = table[0]
    row = state[ROWS]
    slots[slot].key = key
    state[CHUNKS] += 1
    if _learn_here(data, begin, end, desk, rulebook, table, state):
        slots[slot].first = row
    else:
        slots[slot].first = _PENDING
        misses[state[ASKED]], misses[state[ASKED] + 1] = begin, end
        state[ASKED] += 2


@compiled
def _copy_words(known: Any, row: Any, base: Any, columns: Any, count: Any) -> Any:
    """Write the words of a chunk at `base` of its document from row `count` on; the next row, -1 for want of room."""
    starts, ends, hashes, chars, flags = columns
    last = False
    while not last:
        if count == starts.size:
            return -1
        word = known[row]
        starts[count], ends[count] = base + word.start, base + word.end
        hashes[count], chars[count], flags[count], last = word.hash, word.chars, word.flags, word.last != 0
        count, row = count + 1, row + 1
    return count


@entry(types.int64(BYTES, INTS, RULEBOOK, TABLE, _DESK, types.int64[::1], types.int64[::1], COLUMNS, STATE))
def look_up(
    data: Any, offsets: Any, rulebook: Any, table: Any, desk: Any, misses: Any, bounds: Any, columns: Any, state: Any
) -> Any:
    """The words of each chunk from `state` on; returns why it stopped.

    A chunk that is left to Python gets a stand-in, one row that `settle` exchanges for its words.
    """
    characters, special_letters, (slots, known) = rulebook[0], rulebook[2], table
    starts, ends, hashes, chars, flags = columns
    document, position, count = state[DOCUMENT], state[POSITION], state[WORDS]
    state[ASKED] = 0
    while document < offsets.size - 1:
        begin, end = offsets[document], offsets[document + 1]
        position = skip_spaces(data, max(position, begin), end, characters)
        state[POSITION], state[WORDS] = position, count
        if position == end:
            document += 1
            state[DOCUMENT], bounds[document] = document, count
            continue
        after = letters_end(data, position, end)
        letters = after == end or _ends_chunk(data, after, characters)
        if not letters:
            after = _chunk_end(data, after, end, characters)
        key = key_of(data, position, after)
        if count == starts.size:
            return COLUMNS_FULL
        # Letters that are no special case are a word: the table, too large for the nearest cache, is left alone.
        if letters and special_letters[slot_of(special_letters, key)] == 0:
            starts[count], ends[count] = position - begin, after - begin
            hashes[count], chars[count], flags[count] = key, after - position, ALPHA | WORD
            count, position = count + 1, after
            continue
        slot = _slot(slots, key)
        if slots[slot].key == 0:
            if state[ASKED] == misses.size:
                return ASK
            if state[ROWS] + MAX_CHARS >= known.size or 2 * state[CHUNKS] >= slots.size:
                return ASK if state[ASKED] else TABLE_FULL
            _meet(data, position, after, slot, key, desk, rulebook, table, misses, state)
        row = slots[slot].first
        if row == _PENDING:
            starts[count], hashes[count], flags[count] = position - begin, key, _STAND_IN
            count, position = count + 1, after
            state[STAND_INS] += 1
            continue
        copied = _copy_words(known, row, position - begin, columns, count)
        if copied < 0:
            return COLUMNS_FULL
        count, position = copied, after
    return ASK


@compiled
def _words_of(known: Any, row: Any) -> Any:
    """How many words a chunk has."""
    count = 1
    while not known[row].last:
        count, row = count + 1, row + 1
    return count


@compiled
def _extra(table: Any, hashes: Any, flags: Any, count: int) -> Any:
    """How many rows the words of all stand-ins take beyond one each."""
    slots, known = table
    extra = 0
    for row in range(count):
        if flags[row] & _STAND_IN:
            extra += _words_of(known, slots[_slot(slots, hashes[row])].first) - 1
    return extra


@entry(types.int64(TABLE, types.int64[::1], COLUMNS, STATE))
def settle(table: Any, bounds: Any, columns: Any, state: Any) -> Any:
    """Exchange stand-ins for the words of their chunks, which are known by now; how many rows are wanting for it."""
    slots, known = table
    starts, ends, hashes, chars, flags = columns
    row, document = state[WORDS], state[DOCUMENT]
    to = row + _extra(table, hashes, flags, row)
    if to > starts.size:
        return to - starts.size
    state[WORDS] = to
    # From the last row to the first, so that none is overwritten before it has moved.
    while state[STAND_INS]:
        while document > 0 and bounds[document] == row:
            bounds[document] = to
            document -= 1
        row -= 1
        if flags[row] & _STAND_IN:
            first, base = slots[_slot(slots, hashes[row])].first, starts[row]
            to -= _words_of(known, first)
            _copy_words(known, first, base, columns, to)
            state[STAND_INS] -= 1
        else:
            to -= 1
            starts[to], ends[to], hashes[to], chars[to], flags[to] = (
                starts[row],
                ends[row],
                hashes[row],
                chars[row],
                flags[row],
            )
    return 0


@entry(types.void(_SLOTS, _SLOTS))
def rehash(slots: Any, larger: Any) -> None:
    """Every chunk of a table into a larger, empty one."""
    for old in range(slots.size):
        if slots[old].key != 0:
            slot = _slot(larger, slots[old].key)
            larger[slot].key, larger[slot].first = slots[old].key, slots[old].first


@compiled
def _after_chars(data: Any, position: int, chars: int) -> Any:
    for _ in range(chars):
        position += decode(data, position)[1]
    return position


@entry(types.void(BYTES, RULEBOOK, INTS, TABLE, STATE))
def learn(data: Any, rulebook: Any, lengths: Any, table: Any, state: Any) -> None:
    """Enter the chunks of `data`, one a line; their tokens (line feeds are some) have these lengths in characters."""
    characters, _, _, sentence_ends = rulebook
    slots, known = table
    begin = position = 0
    first = state[ROWS]
    for token in range(lengths.size):
        after = _after_chars(data, position, lengths[token])
        if data[position] == 0x0A:
            key = key_of(data, begin, position)
            slot = _slot(slots, key)
            state[CHUNKS] += slots[slot].key == 0
            slots[slot].key, slots[slot].first, known[state[ROWS] - 1].last = key, first, 1
            begin, first = after, state[ROWS]
        else:
            _learn_word(data, begin, position, after, characters, sentence_ends, known[state[ROWS]])
            state[ROWS] += 1
        position = after
