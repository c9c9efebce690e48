"""Best-fit packing of whole documents into windows, inside fixed ranges of documents.

A document of L tokens gives L // T full windows, each a bin of its own, and a remainder of L % T tokens. The
remainders of a range are placed in falling length, each into the open bin that it fills best. Memory is bounded by
the range (65,536 documents) and nothing of a document is lost. The result of a range is three columns of uint32 a
document (12 bytes), which `store.index` keeps in a file:

    full_before[d]    full windows of the range before document d
    order[p]          the document of the p-th remainder, bin by bin
    piece_starts[b]   the first p of packed bin b

Importing this module imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry, maker
from gristmill.core.kernels.memory import empty, filled

RANGE_DOCUMENTS = 65_536
# Part of every plan's fingerprint under cut="pack": raise it with any change of the result.
ALGORITHM = "best-fit-decreasing/1"


@compiled
def _add(tree: Any, leaf: int, amount: int) -> None:
    """Count a bin in or out under its free space."""
    node = leaf + tree.size // 2
    while node >= 1:
        tree[node] += amount
        node //= 2


@compiled
def _smallest_at_least(tree: Any, leaf: int) -> Any:
    """The smallest free space >= leaf that an open bin has, or -1."""
    half = tree.size // 2
    node = leaf + half
    if tree[node]:
        return leaf
    while node > 1:
        if node % 2 == 0 and tree[node + 1]:
            node += 1
            while node < half:
                node = 2 * node if tree[2 * node] else 2 * node + 1
            return node - half
        node //= 2
    return -1


@maker
def _by_falling_remainder(lengths: Any, seq_len: int) -> Any:
    """Documents with a remainder, longest remainder first, equal ones in document order (a counting sort)."""
    starts = filled(seq_len + 1, 0, np.int64)
    for length in lengths:
        starts[seq_len - length % seq_len] += 1
    starts[seq_len] = 0
    total = 0
    for size in range(seq_len + 1):
        starts[size], total = total, total + starts[size]
    documents = empty(total, np.int64)
    for d in range(lengths.size):
        size = lengths[d] % seq_len
        if size:
            documents[starts[seq_len - size]] = d
            starts[seq_len - size] += 1
    return documents


@maker
def _place(documents: Any, lengths: Any, seq_len: int) -> Any:
    """The bin of each remainder, and how many bins were opened."""
    leaves = 1
    while leaves < seq_len + 1:
        leaves *= 2
    tree = filled(2 * leaves, 0, np.int64)
    newest = filled(seq_len + 1, -1, np.int64)
    older = empty(documents.size, np.int64)
    bin_of = empty(documents.size, np.int64)
    bins = 0
    for p in range(documents.size):
        size = lengths[documents[p]] % seq_len
        free = _smallest_at_least(tree, size)
        if free < 0:
            newest[seq_len], older[bins], free = bins, -1, seq_len
            bins += 1
        else:
            _add(tree, free, -1)
        chosen = newest[free]
        newest[free] = older[chosen]
        bin_of[p] = chosen
        if free > size:
            older[chosen], newest[free - size] = newest[free - size], chosen
            _add(tree, free - size, 1)
    return bin_of, bins


_INTS, _SHORTS = types.int64[::1], types.uint32[::1]


@entry(types.UniTuple(types.int64, 3)(_INTS, types.int64, *[_SHORTS] * 3))
def pack_range(lengths: Any, seq_len: int, full_before: Any, order: Any, piece_starts: Any) -> Any:
    """Fill the three columns for one range of documents; returns its full windows, remainders and packed bins."""
    full = 0
    for d in range(lengths.size):
        full_before[d] = full
        full += lengths[d] // seq_len
    documents = _by_falling_remainder(lengths, seq_len)
    bin_of, bins = _place(documents, lengths, seq_len)
    counts = filled(bins + 1, 0, np.int64)
    for p in range(documents.size):
        counts[bin_of[p] + 1] += 1
    for b in range(bins):
        counts[b + 1] += counts[b]
        piece_starts[b] = counts[b]
    for p in range(documents.size):
        order[counts[bin_of[p]]] = documents[p]
        counts[bin_of[p]] += 1
    return full, documents.size, bins
