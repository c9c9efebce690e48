"""Pairs compiled: the similarity of two sets, and who goes. Importing this module imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import place_of, pointer
from gristmill.core.kernels.types import FLOATS, INTS


@compiled
def _common(left: Any, n: int, right: Any, m: int) -> int:
    """How many numbers two sorted sets of n and m share; no branch depends on the data."""
    i = j = shared = 0
    while i < n and j < m:
        x, y = left[i], right[j]
        i += x <= y
        j += y <= x
        shared += x == y
    return shared


@entry(types.void(types.int64[:, ::1], types.int64[:, ::1], types.float64, types.float64[::1]))
def similarities(addresses: Any, sizes: Any, threshold: Any, out: Any) -> None:
    """The Jaccard similarity of each pair of sets; 0 where their sizes alone put it under the threshold.

    Columns are pairs; rows 0 and 1 the two sets: the address of sorted uint64, and how many there are.
    """
    for pair in range(out.size):
        n, m = sizes[0, pair], sizes[1, pair]
        out[pair] = 0.0
        if min(n, m) / max(n, m) >= threshold:
            left, right = pointer(addresses[0, pair], np.uint64), pointer(addresses[1, pair], np.uint64)
            shared = _common(left, n, right, m)
            out[pair] = shared / (n + m - shared)


@compiled
def _place(doc: int, units: Any, begins: Any) -> int:
    """The place of a document's bit; -1 for one of an index, which never goes."""
    return begins[place_of(units, doc >> 32)] + (doc & 0xFFFFFFFF) if doc >= 0 else -1


@entry(
    types.int64(
        INTS, INTS, FLOATS, INTS, INTS, types.uint8[::1],
        types.int64[::1], types.int64[::1], types.float64[::1],
    )
)  # fmt: skip
def resolve(
    earlier: Any, later: Any, similarity: Any, units: Any, begins: Any, dropped: Any, out_doc: Any, out_kept: Any,
    out_similarity: Any,
) -> int:  # fmt: skip
    """Settle edges that come in the order of (later, earlier) by the keep rule; returns the rows of evidence written.

    The documents of units[i] have the bits of `dropped` from begins[i] on: who has gone. Edges of one document lie
    together; the best edge to a kept one is its evidence, the first of several equal ones.
    """
    rows = 0
    for edge in range(later.size):
        place = _place(earlier[edge], units, begins)
        if place >= 0 and dropped[place >> 3] >> (place & 7) & 1:
            continue
        if rows and out_doc[rows - 1] == later[edge]:
            if similarity[edge] <= out_similarity[rows - 1]:
                continue
            rows -= 1
        else:
            place = _place(later[edge], units, begins)
            dropped[place >> 3] |= np.uint8(1 << (place & 7))
        out_doc[rows], out_kept[rows], out_similarity[rows] = later[edge], earlier[edge], similarity[edge]
        rows += 1
    return rows
