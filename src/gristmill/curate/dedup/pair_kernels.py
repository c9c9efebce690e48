"""Pairs compiled: the similarity of two sets, and who goes. Importing this module imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import pointer
from gristmill.core.kernels.types import FLOATS, INTS


@compiled
def _shingles(address: int, size: int) -> Any:
    return carray(pointer(address, np.uint64), (size,))


@compiled
def _common(left: Any, right: Any) -> int:
    """How many numbers two sorted sets share; no branch depends on the data."""
    i = j = shared = 0
    while i < left.size and j < right.size:
        x, y = left[np.uint64(i)], right[np.uint64(j)]
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
            shared = _common(_shingles(addresses[0, pair], n), _shingles(addresses[1, pair], m))
            out[pair] = shared / (n + m - shared)


@compiled
def _is_dropped(doc: int, docs: Any, dropped: Any) -> bool:
    at = np.searchsorted(docs, doc)
    return bool(at < docs.size and docs[at] == doc and dropped[at])


@entry(
    types.int64(
        INTS, INTS, FLOATS, INTS, types.boolean[::1],
        types.int64[::1], types.int64[::1], types.float64[::1],
    )
)  # fmt: skip
def resolve(
    earlier: Any, later: Any, similarity: Any, docs: Any, dropped: Any, out_doc: Any, out_kept: Any, out_similarity: Any
) -> int:
    """Settle edges that come in the order of (later, earlier) by the keep rule; returns the rows of evidence written.

    `docs` (sorted) are all that are the later one of an edge, `dropped` says of each whether it goes. Edges of one
    document lie together; the best edge to a kept one is its evidence, the first of several equal ones.
    """
    rows = 0
    for edge in range(later.size):
        if _is_dropped(earlier[edge], docs, dropped):
            continue
        if rows and out_doc[rows - 1] == later[edge]:
            if similarity[edge] <= out_similarity[rows - 1]:
                continue
            rows -= 1
        else:
            dropped[np.searchsorted(docs, later[edge])] = True
        out_doc[rows], out_kept[rows], out_similarity[rows] = later[edge], earlier[edge], similarity[edge]
        rows += 1
    return rows
