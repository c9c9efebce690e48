"""A hash table from chunks (what stands between white space) to their words, compiled; lazily imported, as Numba is.

A *table* is (slots, known): a slot holds the hash of a chunk (0: empty) and the row of its first word in `known`.
Slots are a power of two and at most half full. Records, not columns: a look at a chunk costs two lines of cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, types

from gristmill.core.compiled import compiled, entry, leaf
from gristmill.curate.characters import KIND, SPACE
from gristmill.curate.chunk_tokenizer import MAX_CHARS, RULES, cut_chunk
from gristmill.curate.hash_sets import HASHES, key_of, slot_of
from gristmill.curate.word_kernels import (
    ALPHA,
    BYTES,
    COLUMNS,
    INTS,
    SENTENCE_END,
    WORD,
    decode,
    hash_bytes,
    letters_end,
    measure,
)

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
# Where a scan stands: document, position in the data, words so far, twice the chunks to ask for, rows of the table
# in use, chunks in it.
STATE = types.int64[::1]
DOCUMENT, POSITION, WORDS, ASKED, ROWS, CHUNKS = range(6)

# Why a scan stopped: all done or chunks to ask for; no room for words; no room for chunks.
ASK, COLUMNS_FULL, TABLE_FULL = 0, 1, 2
_PENDING = -1


@leaf
def _slot(slots: Any, key: Any) -> Any:
    """The slot of `key`, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    slot = key & mask
    while slots[slot].key != 0 and slots[slot].key != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@leaf
def _ends_chunk(data: Any, position: int, characters: Any) -> Any:
    """Whether white space begins here; outside of ASCII it does so with one of four bytes."""
    byte = data[position]
    if byte < 0x80:
        return characters[byte] & KIND == SPACE
    return (byte == 0xC2 or (0xE1 <= byte <= 0xE3)) and characters[decode(data, position)[0]] & KIND == SPACE


@leaf
def _chunk_end(data: Any, position: int, end: int, characters: Any) -> Any:
    while position < end and not _ends_chunk(data, position, characters):
        position += 1
    return position


@leaf
def _after_space(data: Any, position: int, end: int, characters: Any) -> Any:
    while position < end:
        code, size = decode(data, position)
        if characters[code] & KIND != SPACE:
            break
        position += size
    return position


@leaf
def _is_among(code: int, codes: Any) -> Any:
    found = False
    for other in codes:
        found |= other == code
    return found


@leaf
def _learn_word(data: Any, base: int, begin: int, end: int, characters: Any, sentence_ends: Any, word: Any) -> None:
    """Enter data[begin:end] as a word of the chunk that begins at `base`."""
    word.start, word.end = begin - base, end - base
    word.hash = hash_bytes(data, begin, end)
    chars, flags = measure(data, begin, end, characters)
    if chars == 1 and _is_among(decode(data, begin)[0], sentence_ends):
        flags |= SENTENCE_END
    word.chars, word.flags, word.last = chars, flags, 0


@compiled
def _learn_here(data: Any, begin: int, end: int, slot: Any, key: Any, rulebook: Any, table: Any, state: Any) -> Any:
    """Enter a chunk that compiled code can split; False where spaCy must be asked."""
    characters, rules, _, sentence_ends = rulebook
    slots, known = table
    places, cuts = np.empty(MAX_CHARS + 1, np.int64), np.empty(MAX_CHARS + 1, np.bool_)
    size = cut_chunk(data, begin, end, rules, np.empty(MAX_CHARS + 1, np.int32), places, cuts)
    if size == 0:
        return False
    slots[slot].key, slots[slot].first = key, state[ROWS]
    first = 0
    for k in range(1, size + 1):
        if cuts[k]:
            _learn_word(data, begin, places[first], places[k], characters, sentence_ends, known[state[ROWS]])
            first = k
            state[ROWS] += 1
    known[state[ROWS] - 1].last = 1
    state[CHUNKS] += 1
    return True


@leaf
def _note_miss(slots: Any, slot: Any, key: Any, begin: int, end: int, misses: Any, state: Any) -> None:
    """Ask for a chunk once: its slot is taken, its words are pending."""
    slots[slot].key, slots[slot].first = key, _PENDING
    misses[state[ASKED]], misses[state[ASKED] + 1] = begin, end
    state[ASKED] += 2
    state[CHUNKS] += 1


@entry(types.int64(BYTES, INTS, RULEBOOK, TABLE, types.int64[::1], types.int64[::1], COLUMNS, STATE))
def look_up(
    data: Any, offsets: Any, rulebook: Any, table: Any, misses: Any, bounds: Any, columns: Any, state: Any
) -> Any:
    """The words of each chunk from `state` on; returns why it stopped.

    From the first chunk on for which spaCy must be asked nothing more is written: the scan goes on only to collect
    further such chunks, each once, so that all are asked for together. It begins again there when they are known.
    """
    characters, special_letters, (slots, known) = rulebook[0], rulebook[2], table
    starts, ends, hashes, chars, flags = columns
    document, position, count = state[DOCUMENT], state[POSITION], state[WORDS]
    state[ASKED] = 0
    while document < offsets.size - 1:
        begin, end = offsets[document], offsets[document + 1]
        position = _after_space(data, max(position, begin), end, characters)
        if position == end:
            document += 1
            if state[ASKED] == 0:
                state[DOCUMENT], state[POSITION], bounds[document] = document, position, count
            continue
        after = letters_end(data, position, end)
        letters = after == end or _ends_chunk(data, after, characters)
        if not letters:
            after = _chunk_end(data, after, end, characters)
        key = key_of(data, position, after)
        # Letters that are no special case are a word: the table, too large for the nearest cache, is left alone.
        plain = letters and special_letters[slot_of(special_letters, key)] == 0
        slot = np.uint64(0) if plain else _slot(slots, key)
        if not plain and slots[slot].key == 0:
            if state[ROWS] + MAX_CHARS >= known.size or 2 * state[CHUNKS] >= slots.size:
                return ASK if state[ASKED] else TABLE_FULL
            if not _learn_here(data, position, after, slot, key, rulebook, table, state):
                _note_miss(slots, slot, key, position, after, misses, state)
                if state[ASKED] == misses.size:
                    return ASK
        if state[ASKED] == 0:
            row = -1 if plain else slots[slot].first
            last = False
            while not last:
                if count == starts.size:
                    return COLUMNS_FULL
                if row < 0:
                    starts[count], ends[count] = position - begin, after - begin
                    hashes[count], chars[count], flags[count], last = key, after - position, ALPHA | WORD, True
                else:
                    word = known[row]
                    starts[count], ends[count] = position - begin + word.start, position - begin + word.end
                    hashes[count], chars[count], flags[count], last = word.hash, word.chars, word.flags, word.last != 0
                count, row = count + 1, row + 1
            state[POSITION], state[WORDS] = after, count
        position = after
    return ASK


@entry(types.void(_SLOTS, _SLOTS))
def rehash(slots: Any, larger: Any) -> None:
    """Every chunk of a table into a larger, empty one."""
    for old in range(slots.size):
        if slots[old].key != 0:
            slot = _slot(larger, slots[old].key)
            larger[slot].key, larger[slot].first = slots[old].key, slots[old].first


@leaf
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
