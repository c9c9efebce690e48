"""The scan for a phrase, compiled. Importing this module imports Numba (0.2 s).

An *automaton* is (phrase, borders, data, offsets): the bytes that are looked for; for each length of a begun match that
of the longest shorter one that it ends with (Knuth, Morris and Pratt); and the bytes of all tokens, token t having
data[offsets[t]:offsets[t + 1]]. Ids without a token have no bytes, as in decoding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.types import BYTES, INTS, INTS32, SHORTS

# What one piece of a shard hands to the next: bytes that match so far, matches, documents with one, the document that
# is read and the last one with a match, the place up to which tokens were followed, and from which on they are needed.
BEGUN, HITS, DOCUMENTS, DOCUMENT, COUNTED, DONE, NEEDED = range(7)
_AUTOMATON = types.Tuple((BYTES, INTS32, BYTES, INTS))
_SEARCH = types.Tuple((_AUTOMATON, types.int64, BYTES, INTS32, INTS32))
_INTEGERS = types.Array(types.uint32, 1, "C", readonly=True)
_OUT = types.int64[::1]


@compiled
def _grown(automaton: Any, begun: int, byte: int) -> Any:
    """How many bytes match after one more; the phrase's own length where it is whole."""
    phrase, borders = automaton[0], automaton[1]
    while begun and phrase[begun] != byte:
        begun = borders[begun]
    return begun + (phrase[begun] == byte)


@compiled
def _fits(phrase: Any, token: Any, at: int) -> Any:
    """Whether a token that begins at place `at` of the phrase, or before it, spells the part of it that it covers."""
    for j in range(max(-at, 0), min(token.size, phrase.size - at)):  # noqa: SIM110  # Numba knows no `all` of these
        if token[j] != phrase[at + j]:
            return False
    return True


@entry(types.void(_AUTOMATON, types.int64, types.uint8[::1]))
def mark_telling(automaton: Any, anchor: int, telling: Any) -> None:
    """Mark the tokens that may hold byte `anchor` of the phrase where it stands: every match has one of them."""
    phrase, _, data, offsets = automaton
    for token in range(offsets.size - 1):
        own = data[offsets[token] : offsets[token + 1]]
        for j in range(own.size):
            if own[j] == phrase[anchor] and _fits(phrase, own, anchor - j):
                telling[token] = 1
                break


@entry(types.void(_AUTOMATON, types.int32[::1], types.int32[::1]))
def follow_tokens(automaton: Any, whole: Any, begun: Any) -> None:
    """For each token by itself: the matches in it, and how many bytes match at its end."""
    phrase, borders, data, offsets = automaton
    for token in range(offsets.size - 1):
        for j in range(offsets[token], offsets[token + 1]):
            begun[token] = _grown(automaton, begun[token], data[j])
            if begun[token] == phrase.size:
                whole[token] += 1
                begun[token] = borders[phrase.size]


@compiled
def _next_telling(tokens: Any, i: int, telling: Any) -> Any:
    """The first place from `i` on that matters: 16 tokens are looked up before one branch is taken."""
    last = np.uint64(telling.size - 1)
    while i + 16 <= tokens.size:
        some = np.uint8(0)
        for j in range(16):
            some |= telling[min(np.uint64(tokens[i + j]), last)]
        if some:
            break
        i += 16
    while i < tokens.size and not telling[min(np.uint64(tokens[i]), last)]:
        i += 1
    return i


@compiled
def _back(tokens: Any, i: int, low: int, size: int, offsets: Any) -> Any:
    """The place from which on there are `size` bytes before token `i`; not below `low`."""
    while i > low and size > 0:
        i -= 1
        token = np.int64(tokens[i])
        if token < offsets.size - 1:
            size -= offsets[token + 1] - offsets[token]
    return i


@compiled
def _document_start(ends: Any, document: int) -> Any:
    return ends[document - 1] if document else 0


@compiled
def _count_whole(tokens: Any, i: int, first: int, ends: Any, whole: Any, carry: Any) -> Any:
    """The matches inside of tokens from place `i` on, document by document."""
    document, hits, last = carry[DOCUMENT], 0, np.uint64(whole.size - 1)
    while i < tokens.size:
        while ends[document] <= first + i:
            document += 1
        stop = min(ends[document] - first, tokens.size)
        found = 0
        for j in range(i, stop):
            found += whole[min(np.uint64(tokens[j]), last)]
        if found:
            hits += found
            carry[DOCUMENTS] += document != carry[COUNTED]
            carry[COUNTED] = document
        i = stop
    return hits


@compiled
def _scan(tokens: Any, first: int, fresh: int, ends: Any, search: Any, carry: Any, places: Any) -> None:
    automaton, anchor, telling, whole, ending = search
    phrase, borders, data, offsets = automaton
    begun, hits, document, done = carry[BEGUN], carry[HITS], carry[DOCUMENT], carry[DONE] - first
    i = fresh - first
    if phrase.size == 1 and 3 * hits >= places.size:  # matches end in their token, and only their number is asked for
        hits += _count_whole(tokens, i, first, ends, whole, carry)
        i = done = tokens.size
    until = i - 1
    while i < tokens.size:
        if begun == 0:
            until = _next_telling(tokens, i, telling)
            if until == tokens.size:
                break
            while ends[document] <= first + until:
                document += 1
            i = _back(tokens, until, max(done, _document_start(ends, document) - first, 0), anchor, offsets)
        while i < tokens.size and (begun or i <= until):
            if ends[document] <= first + i:  # what was begun ends with its document, and `until` is behind
                begun = 0
                break
            token = np.int64(tokens[i])
            i += 1
            if token >= offsets.size - 1:
                continue
            if begun == 0 and 3 * hits >= places.size:  # no place is asked for, so that its bytes need not be followed
                begun = ending[token]
                if whole[token]:
                    hits += whole[token]
                    carry[DOCUMENTS] += document != carry[COUNTED]
                    carry[COUNTED] = document
                continue
            for j in range(offsets[token], offsets[token + 1]):
                begun = _grown(automaton, begun, data[j])
                if begun == phrase.size:
                    if 3 * hits < places.size:
                        places[3 * hits], places[3 * hits + 1] = document, first + i - 1
                        places[3 * hits + 2] = j + 1 - offsets[token]
                    hits += 1
                    carry[DOCUMENTS] += document != carry[COUNTED]
                    carry[COUNTED] = document
                    begun = borders[begun]
        done = i
    while document < ends.size - 1 and ends[document] <= first + tokens.size:
        document += 1
        begun = 0
    low = max(done, _document_start(ends, document) - first, 0)
    carry[NEEDED] = first + _back(tokens, tokens.size, low, anchor, offsets)
    carry[BEGUN], carry[HITS], carry[DOCUMENT], carry[DONE] = begun, hits, document, done + first


@entry(types.void(SHORTS, types.int64, types.int64, INTS, _SEARCH, _OUT, _OUT))
def scan_shorts(tokens: Any, first: int, fresh: int, ends: Any, search: Any, carry: Any, places: Any) -> None:
    """Go on over tokens of two bytes: see `scan_integers`."""
    _scan(tokens, first, fresh, ends, search, carry, places)


@entry(types.void(_INTEGERS, types.int64, types.int64, INTS, _SEARCH, _OUT, _OUT))
def scan_integers(tokens: Any, first: int, fresh: int, ends: Any, search: Any, carry: Any, places: Any) -> None:
    """Go on over tokens of four bytes from number `fresh` of their shard; the first of them is number `first`.

    Tokens before `fresh` are those that may begin a match, from carry[NEEDED] on. Where nothing has begun to match,
    only telling tokens matter, and from each the phrase is followed from where it would begin. Matches end where
    documents do, by `ends`. `telling` and `whole` have one place more than there are tokens, for ids that are none.
    `places` takes (document, last token, its bytes up to the end of the match) of the first matches, as many as there
    is room for; after them matches inside of a token are counted by the table of `follow_tokens`.
    """
    _scan(tokens, first, fresh, ends, search, carry, places)
