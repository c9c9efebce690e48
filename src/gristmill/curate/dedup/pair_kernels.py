"""Pairs compiled: the similarity of two sets, and who goes. Importing this module imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import pointer
from gristmill.core.kernels.types import INTS


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


@entry(types.void(INTS, INTS, types.int64[::1], types.int64[::1], types.boolean[::1]))
def settle(ends: Any, below: Any, waiting: Any, queue: Any, gone: Any) -> None:
    """Mark who goes: below[ends[i] : ends[i + 1]] are the later neighbours of i, `waiting` counts the earlier ones.

    Each document is decided once, when an earlier neighbour stays or the last of them has gone, and then tells its
    later ones; `queue` has room for all, and those that are decided have 0 to wait for.
    """
    decided = 0
    for doc in range(gone.size):
        if waiting[doc] == 0:
            queue[decided] = doc
            decided += 1
    told = 0
    while told < decided:
        doc = queue[told]
        told += 1
        for edge in range(ends[doc], ends[doc + 1]):
            other = below[edge]
            if waiting[other] == 0:
                continue
            if not gone[doc]:
                gone[other] = True
            waiting[other] = 0 if gone[other] else waiting[other] - 1
            if waiting[other] == 0:
                queue[decided] = other
                decided += 1
