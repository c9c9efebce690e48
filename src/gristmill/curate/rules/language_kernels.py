"""Naive Bayes over the byte n-grams of a text, compiled. Importing this module imports Numba (0.2 s).

An automaton finds the n-grams with one table look-up a byte. Sums run in the order of first sight, in 32-bit floats
that are never reassociated, so that a text has the same score on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, float64, int16, int32, int64, types, uint8, void

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import copy, empty, filled
from gristmill.core.kernels.types import BYTES, INTS
from gristmill.core.kernels.utf8 import next_start

# Longer documents are judged on this many pieces, spread evenly from the first byte to the last.
PIECES = 4

_AUTOMATON = types.UniTuple(int32[::1], 3)
_BAYES = types.Tuple((int16[:, ::1], float32[::1], float32[::1], int32[::1]))


@compiled
def _copy_pieces(data: Any, begin: int, end: int, length: int, out: Any, at: int) -> Any:
    """Copy PIECES pieces of about `length` bytes, whole characters, each ended by a line feed."""
    for piece in range(PIECES):
        first = begin + (end - begin - length) * piece // (PIECES - 1)
        start = next_start(data, first, end)
        stop = next_start(data, first + length, end)
        at = copy(data, start, stop, out, at)
        out[at] = 0x0A
        at += 1
    return at


@entry(void(BYTES, INTS, int64, uint8[::1], int64[::1]))
def sample(data: Any, offsets: Any, limit: int, out: Any, ends: Any) -> None:
    """What to judge each text on: all of it, or `limit` bytes (and at most 4 more a piece) from all over it."""
    at = 0
    for row in range(offsets.size - 1):
        begin, end = offsets[row], offsets[row + 1]
        if end - begin <= limit:
            at = copy(data, begin, end, out, at)
        else:
            at = _copy_pieces(data, begin, end, limit // PIECES, out, at)
        ends[row + 1] = at


@entry(void(uint8[::1], int64[::1], types.boolean[::1]))
def find_unusual(data: Any, ends: Any, unusual: Any) -> None:
    """Mark samples that the model may not know as they are: with decomposed accents (U+0300 to U+037F), or without
    small Latin letters, so that they may be all capitals.
    """
    for row in range(unusual.size):
        accents = small = False
        for at in range(ends[row], ends[row + 1]):
            accents |= data[at] == 0xCC or data[at] == 0xCD
            small |= 0x61 <= data[at] <= 0x7A
        unusual[row] = accents or not small


@compiled
def _count(data: Any, begin: int, end: int, automaton: Any, counts: Any, seen: Any) -> Any:
    """Count the n-grams of one sample; `seen` lists them in the order of first sight."""
    moves, rows, features = automaton
    state = found = 0
    for at in range(begin, end):
        state = moves[rows[state] + data[at]]
        feature = features[state]
        if feature >= 0:
            if counts[feature] == 0:
                seen[found] = feature
                found += 1
            counts[feature] += 1
    return found


@compiled
def _weigh(seen: Any, found: int, counts: Any, bayes: Any, sums: Any) -> None:
    """The log-likelihood of each class; the counts go back to zero."""
    table, prior, logs, _ = bayes
    for k in range(sums.size):
        sums[k] = prior[k]
    for i in range(found):
        feature = seen[i]
        weight = logs[counts[feature]]
        counts[feature] = 0
        for k in range(sums.size):
            sums[k] += weight * float32(table[feature, k])


@compiled
def _best(sums: Any, size: int, labels: Any, shares: Any) -> Any:
    """The likeliest label and its probability; the temperature √size keeps scores comparable between lengths."""
    top, total, best = sums[0], 0.0, 0
    for k in range(1, sums.size):
        top = max(top, sums[k])
    for label in range(shares.size):
        shares[label] = 0.0
    for k in range(sums.size):
        share = np.exp(float64(sums[k] - top) / np.sqrt(float64(size)))
        shares[labels[k]] += share
        total += share
    for label in range(shares.size):
        if shares[label] > shares[best]:
            best = label
    return best, shares[best] / total


@entry(void(uint8[::1], int64[::1], _AUTOMATON, _BAYES, int32[::1], float64[::1]))
def identify(data: Any, ends: Any, automaton: Any, bayes: Any, labels: Any, scores: Any) -> None:
    """The label of each sample (-1: it has no n-gram of any language) and its score."""
    table, prior, logs, names = bayes
    counts, seen = filled(table.shape[0], 0, np.int32), empty(logs.size, np.int32)
    sums, shares = empty(prior.size, np.float32), empty(prior.size, np.float64)
    for row in range(labels.size):
        found = _count(data, ends[row], ends[row + 1], automaton, counts, seen)
        labels[row], scores[row] = -1, 0.0
        if found:
            _weigh(seen, found, counts, bayes, sums)
            labels[row], scores[row] = _best(sums, ends[row + 1] - ends[row], names, shares)
