"""Augmentation compiled: documents rearranged, hidden or blurred in place, by numbers drawn from keys.

The n-th number of a key is SplitMix64's, so each is had alone: nothing depends on the order of rows, documents or
threads. Importing this module imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.hashing import GOLDEN
from gristmill.core.kernels.hashes import finalise
from gristmill.core.kernels.memory import copy, empty, holds

_11, _32 = np.uint64(11), np.uint64(32)
_IGNORED = -100


@compiled
def draw(key: Any, n: int) -> Any:
    """The n-th number of a key: 64 bits."""
    return finalise(key + GOLDEN * np.uint64(n))


@compiled
def happens(number: Any, limit: Any) -> Any:
    """Whether a number is below a rate, which is spelt as a limit of 53 bits."""
    return number >> _11 < limit


@compiled
def below(number: Any, bound: int) -> Any:
    """A number from 0 to bound - 1, for bounds under 2^32."""
    return np.int64((number >> _32) * np.uint64(bound) >> _32)


@compiled
def document_end(row: Any, begin: int, end: int, eos: int) -> Any:
    """Where the document that begins at `begin` ends: after its EOS, or at `end`."""
    at = begin
    while at < end and row[at] != eos:
        at += 1
    return min(at + 1, end)


# Fill-in-the-middle.


@compiled
def two_cuts(key: Any, size: int) -> Any:
    """Where the middle of `size` tokens begins and ends."""
    one, other = below(draw(key, 2), size + 1), below(draw(key, 3), size + 1)
    return min(one, other), max(one, other)


@compiled
def fill_in(body: Any, size: int, first: int, second: int, spm: bool, ids: Any, out: Any, at: int) -> Any:
    """Write the parts of `body` with their sentinels at out[at:], the middle [first, second) last; the place after."""
    out[at] = ids[0]
    at += 1
    if not spm:
        at = copy(body, 0, first, out, at)
    out[at] = ids[2]
    at = copy(body, second, size, out, at + 1)
    out[at] = ids[1]
    at += 1
    if spm:
        at = copy(body, 0, first, out, at)
    return copy(body, first, second, out, at)


# Spans.


@compiled
def _share(size: int, density: float, least: int) -> Any:
    """How many of `size` tokens are left out: `least` or more, and as many are kept."""
    return min(max(np.int64(size * density + 0.5), least), size - least)


@compiled
def span_count(size: int, density: float, mean: float, most: int) -> Any:
    """How many spans `size` tokens (2 or more) have: each has a token, and so has what is kept before it."""
    noise = _share(size, density, 1)
    return max(min(np.int64(noise / mean + 0.5), noise, size - noise, most), 1)


@compiled
def spans_in(room: int, density: float, mean: float, most: int) -> Any:
    """How many spans there are where the tokens and two sentinels a span fill `room` (4 or more)."""
    return span_count(room - 2 * span_count(room, density, mean, most), density, mean, most)


@compiled
def _parts(total: int, count: int, key: Any, out: Any) -> None:
    """Lengths of `count` parts that make `total`: any count - 1 places between tokens are as likely as any others."""
    needed, begin, made = count - 1, 0, 0
    for place in range(1, total):
        if below(draw(key, place), total - place) < needed:
            out[made] = place - begin
            begin, made, needed = place, made + 1, needed - 1
    out[made] = total - begin


@compiled
def corrupt(
    body: Any, size: int, spans: int, key: Any, density: float, ids: Any, lengths: Any, out: Any, at: int
) -> Any:
    """Write what is kept of `body`, then what is left out; where the latter, the targets, begin, and the place after.

    `lengths` has room for two numbers a sentinel.
    """
    noise = _share(size, density, spans)
    left_out, kept = lengths[:spans], lengths[spans : 2 * spans]
    _parts(noise, spans, draw(key, 5), left_out)
    _parts(size - noise, spans, draw(key, 6), kept)
    place = 0
    for i in range(spans):
        at = copy(body, place, place + kept[i], out, at)
        out[at] = ids[i]
        at, place = at + 1, place + kept[i] + left_out[i]
    targets, place = at, 0
    for i in range(spans):
        out[at] = ids[i]
        at = copy(body, place + kept[i], place + kept[i] + left_out[i], out, at + 1)
        place += kept[i] + left_out[i]
    return targets, at


# Rows of a batch: row r holds pieces [edges[r], edges[r + 1]), at columns[i] with lengths[i] tokens each.

_INTS, _KEYS, _TABLE = types.int64[::1], types.uint64[::1], types.int64[:, ::1]
_MASKS = types.boolean[:, ::1]
_ROWS = (_TABLE, _TABLE, _INTS, _INTS, _INTS, _KEYS, _KEYS, types.int64)


@entry(types.void(*_ROWS, types.uint64, _INTS, _INTS))
def fim_rows(
    tokens: Any, labels: Any, edges: Any, columns: Any, lengths: Any, keys: Any, limits: Any, eos: int,
    spm_limit: Any, ids: Any, displaced: Any,
) -> None:  # fmt: skip
    """Rearrange documents where they stand: each gives up its last three tokens to the sentinels, which is counted.

    What follows a changed document that goes on in another row is no label of it.
    """
    body = empty(tokens.shape[1], np.int64)
    for row in range(edges.size - 1):
        line = tokens[row]
        for i in range(edges[row], edges[row + 1]):
            at, end = columns[i], columns[i] + lengths[i]
            while at < end:
                begin, at = at, document_end(line, at, end, eos)
                open_end = line[at - 1] != eos
                size = at - begin - 3 - (0 if open_end else 1)
                key = draw(keys[row], begin + 1)
                if size < 1 or not happens(draw(key, 1), limits[row]):
                    continue
                copy(line, begin, begin + size, body, 0)
                first, second = two_cuts(key, size)
                fill_in(body, size, first, second, happens(draw(key, 4), spm_limit), ids, line, begin)
                displaced[row] += 3
                if open_end and labels.size:
                    labels[row, at - 1] = _IGNORED


@entry(types.void(*_ROWS, types.float64, types.float64, _INTS, _MASKS, _INTS))
def corrupt_rows(
    tokens: Any, labels: Any, edges: Any, columns: Any, lengths: Any, keys: Any, limits: Any, eos: int,
    density: float, mean: float, ids: Any, loss_mask: Any, displaced: Any,
) -> None:  # fmt: skip
    """Leave out spans of documents where they stand: each gives up as many tokens as sentinels take room."""
    body, parts = empty(tokens.shape[1], np.int64), empty(2 * ids.size, np.int64)
    for row in range(edges.size - 1):
        line = tokens[row]
        for i in range(edges[row], edges[row + 1]):
            at, end = columns[i], columns[i] + lengths[i]
            while at < end:
                begin, at = at, document_end(line, at, end, eos)
                open_end = line[at - 1] != eos
                room = at - begin - (0 if open_end else 1)
                key = draw(keys[row], begin + 1)
                if room < 4 or not happens(draw(key, 1), limits[row]):
                    continue
                spans = spans_in(room, density, mean, ids.size)
                size = room - 2 * spans
                copy(line, begin, begin + size, body, 0)
                targets, _ = corrupt(body, size, spans, key, density, ids, parts, line, begin)
                for column in range(begin, targets):
                    loss_mask[row, column] = False
                displaced[row] += 2 * spans
                if open_end and labels.size:
                    labels[row, at - 1] = _IGNORED


@entry(types.void(_TABLE, _TABLE, _MASKS, _INTS, _INTS, _INTS))
def relabel_rows(tokens: Any, labels: Any, loss_mask: Any, edges: Any, columns: Any, lengths: Any) -> None:
    """Labels anew inside of pieces, after their tokens were moved: the next token, -100 where that is no target."""
    masked = loss_mask.size > 0
    for row in range(edges.size - 1):
        line = tokens[row]
        for i in range(edges[row], edges[row + 1]):
            first, last = columns[i], columns[i] + lengths[i] - 1
            copy(line, first + 1, last + 1, labels[row], first)
            if masked:
                for column in range(first, last):
                    if not loss_mask[row, column + 1]:
                        labels[row, column] = _IGNORED


@compiled
def _other_token(number: Any, vocab_size: int, eos: int) -> Any:
    """Any token but EOS."""
    if eos >= vocab_size:
        return below(number, vocab_size)
    token = below(number, vocab_size - 1)
    return token + 1 if token >= eos else token


@entry(types.void(*_ROWS, types.int64, types.uint64, types.uint64, types.int64, _INTS, _MASKS))
def mask_rows(
    tokens: Any, labels: Any, edges: Any, columns: Any, lengths: Any, keys: Any, limits: Any, eos: int,
    vocab_size: int, masked: Any, changed: Any, token: int, special: Any, loss_mask: Any,
) -> None:  # fmt: skip
    """Ask for some tokens where they are; below the limit `masked` they are hidden, below `changed` another one's."""
    for row in range(edges.size - 1):
        line, key, limit = tokens[row], keys[row], limits[row]
        for i in range(edges[row], edges[row + 1]):
            for column in range(columns[i], columns[i] + lengths[i]):
                number, was = draw(key, column + 1), line[column]
                chosen = happens(number, limit) and not holds(special, was)
                labels[row, column] = was if chosen else _IGNORED
                loss_mask[row, column] = chosen
                if chosen:
                    how = draw(number, 1)
                    if happens(how, masked):
                        line[column] = token
                    elif happens(how, changed):
                        line[column] = _other_token(draw(number, 2), vocab_size, eos)


@entry(types.void(*_ROWS, types.int64, _INTS))
def noise_rows(
    tokens: Any, labels: Any, edges: Any, columns: Any, lengths: Any, keys: Any, limits: Any, eos: int,
    vocab_size: int, special: Any,
) -> None:  # fmt: skip
    """Replace some tokens of the inputs by any others; labels are left alone."""
    for row in range(edges.size - 1):
        line, key, limit = tokens[row], keys[row], limits[row]
        for i in range(edges[row], edges[row + 1]):
            for column in range(columns[i], columns[i] + lengths[i]):
                number = draw(key, column + 1)
                if happens(number, limit) and not holds(special, line[column]):
                    line[column] = _other_token(draw(number, 2), vocab_size, eos)
