"""Documents of a block rearranged before they are rows, compiled. Importing this module imports Numba.

A document that is longer than a row is rearranged in stretches, each of which fills one: what a model cannot see at
once is no use to it. Document i is ids[offsets[i]:offsets[i + 1]], without EOS; keys[i] gives those of its stretches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import copy, empty
from gristmill.core.kernels.types import BYTES, HASHES, INTS
from gristmill.loader.augment_kernels import (
    corrupt,
    draw,
    fill_in,
    happens,
    span_count,
    spans_in,
    two_cuts,
)

# In the ids of a block: this token is no target. Ids are below it.
MARK = 1 << 31
_STRETCHES = 16
_IGNORED = -100
_OUT, _TABLE, _MASKS = types.int64[::1], types.int64[:, ::1], types.boolean[:, ::1]


@compiled
def _stretch_key(key: Any, stretch: int) -> Any:
    return draw(key, _STRETCHES + stretch)


@entry(types.void(INTS, INTS, _TABLE, HASHES, types.uint64, types.uint64, INTS, types.int64, _OUT, _OUT))
def fim_documents(
    ids: Any, offsets: Any, cuts: Any, keys: Any, limit: Any, spm_limit: Any, special: Any, seq_len: int,
    out: Any, out_offsets: Any,
) -> None:  # fmt: skip
    """Rearrange documents: in two places that `cuts` names, counted from their beginning, or (-1) in any."""
    place = 0
    for i in range(offsets.size - 1):
        at, end, stretch = offsets[i], offsets[i + 1], 0
        while at < end:
            key = _stretch_key(keys[i], stretch)
            size, first, second = min(end - at, seq_len), cuts[i, 0], cuts[i, 1]
            if seq_len > 3 and happens(draw(key, 1), limit):
                size = min(size, seq_len - 3)
                if first < 0:
                    first, second = two_cuts(key, size)
                spm = happens(draw(key, 4), spm_limit)
                place = fill_in(ids[at : at + size], size, first, second, spm, special, out, place)
            else:
                place = copy(ids, at, at + size, out, place)
            at, stretch = at + size, stretch + 1
        out_offsets[i + 1] = place


@entry(types.void(INTS, INTS, HASHES, types.uint64, types.float64, types.float64, INTS, types.int64, _OUT, _OUT))
def corrupt_documents(
    ids: Any, offsets: Any, keys: Any, limit: Any, density: float, mean: float, special: Any, seq_len: int,
    out: Any, out_offsets: Any,
) -> None:  # fmt: skip
    """Leave out spans of documents, which follow what is left; the latter is marked."""
    place, parts = 0, empty(2 * special.size, np.int64)
    for i in range(offsets.size - 1):
        at, end, stretch = offsets[i], offsets[i + 1], 0
        while at < end:
            key, left = _stretch_key(keys[i], stretch), end - at
            size = min(left, seq_len)
            if left > 1 and seq_len > 3 and happens(draw(key, 1), limit):
                spans = span_count(left, density, mean, special.size)
                if left + 2 * spans > seq_len:
                    spans = spans_in(seq_len, density, mean, special.size)
                size = min(left, seq_len - 2 * spans)
                targets, after = corrupt(ids[at : at + size], size, spans, key, density, special, parts, out, place)
                for j in range(place, targets):
                    out[j] |= MARK
                place = after
            else:
                place = copy(ids, at, at + size, out, place)
            at, stretch = at + size, stretch + 1
        out_offsets[i + 1] = place


@compiled
def _begins(byte: Any) -> Any:
    """Whether a byte of UTF-8 begins a character."""
    return byte & 0xC0 != 0x80


@compiled
def _byte_of(data: Any, begin: int, end: int, character: int) -> Any:
    """Where the character of this number begins, counted from `begin`; `end` for the one after the last."""
    seen = 0
    for at in range(begin, end):
        if _begins(data[at]):
            if seen == character:
                return at
            seen += 1
    return end


@entry(types.void(BYTES, INTS, HASHES, types.uint64, _TABLE))
def cut_texts(data: Any, offsets: Any, keys: Any, limit: Any, cuts: Any) -> None:
    """The two bytes between characters at which each text is cut, or -1: the choice of its first stretch."""
    for i in range(offsets.size - 1):
        key = _stretch_key(keys[i], 0)
        cuts[i, 0] = cuts[i, 1] = -1
        if happens(draw(key, 1), limit):
            characters = 0
            for at in range(offsets[i], offsets[i + 1]):
                characters += _begins(data[at])
            first, second = two_cuts(key, characters)
            cuts[i, 0] = _byte_of(data, offsets[i], offsets[i + 1], first)
            cuts[i, 1] = _byte_of(data, offsets[i], offsets[i + 1], second)


@entry(types.void(_TABLE, _TABLE, _MASKS))
def unmark_rows(tokens: Any, labels: Any, loss_mask: Any) -> None:
    """Take the marks off rows: what has one is no target, and no label."""
    with_labels = labels.size > 0
    for row in range(tokens.shape[0]):
        for column in range(tokens.shape[1]):
            if tokens[row, column] & MARK:
                tokens[row, column] ^= MARK
                loss_mask[row, column] = False
            if with_labels and labels[row, column] > 0 and labels[row, column] & MARK:
                labels[row, column] = _IGNORED
