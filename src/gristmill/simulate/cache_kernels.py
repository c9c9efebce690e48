"""What memory and the cache of a node keep of a row of uses, compiled: names and sizes only. It imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import filled, largest

_INTS = types.int64[::1]


@entry(types.void(_INTS, _INTS, types.int64, types.boolean[::1], _INTS))
def keep_latest(extents: Any, sizes: Any, limit: Any, missed: Any, held: Any) -> None:
    """Which of the uses `extents` find theirs gone, if `limit` bytes are kept and the longest unused go first.

    sizes: by extent. held: the bytes that are kept after each use. The list is a ring through the place `sizes.size`.
    """
    end = sizes.size
    after, before = filled(end + 1, -1, np.int64), filled(end + 1, -1, np.int64)
    after[end] = before[end] = end
    total = 0
    for i in range(extents.size):
        extent = extents[i]
        missed[i] = after[extent] < 0
        if missed[i]:
            total += sizes[extent]
            while total > limit and before[end] != end:
                oldest = before[end]
                total -= sizes[oldest]
                before[end] = before[oldest]
                after[before[end]] = end
                after[oldest] = -1
        else:
            after[before[extent]], before[after[extent]] = after[extent], before[extent]
        first = after[end]
        after[end], before[extent], after[extent], before[first] = extent, end, first, extent
        held[i] = total


@compiled
def _remove_farthest(first: Any, after: Any, due: Any, used: Any, sizes: Any, own: Any) -> Any:
    """Take what is used last out of a set: its bytes."""
    before, gone, previous, extent = -1, first[own], -1, first[own]
    while extent >= 0:
        if due[extent] > due[gone]:
            before, gone = previous, extent
        previous, extent = extent, after[extent]
    if before < 0:
        first[own] = after[gone]
    else:
        after[before] = after[gone]
    due[gone] = -1
    used[own] -= sizes[gone]
    return sizes[gone]


@entry(types.void(_INTS, _INTS, _INTS, _INTS, types.int64, types.boolean[::1], _INTS))
def keep_nearest(extents: Any, nexts: Any, sets: Any, sizes: Any, share: Any, missed: Any, held: Any) -> None:
    """Which of the uses `extents` find theirs gone, if each of the `sets` keeps `share` bytes: what is used next.

    nexts: where each use is followed by another of the same extent. sets, sizes: by extent; one that is larger than the
    share is never kept. held: the bytes in all sets after each use.
    """
    first, used = filled(largest(sets) + 1, -1, np.int64), filled(largest(sets) + 1, 0, np.int64)
    after, due, total = filled(sizes.size, -1, np.int64), filled(sizes.size, -1, np.int64), 0
    for i in range(extents.size):
        extent, own = extents[i], sets[extents[i]]
        missed[i] = due[extent] < 0
        if missed[i] and sizes[extent] <= share:
            after[extent], first[own] = first[own], extent
            used[own] += sizes[extent]
            total += sizes[extent]
        if not missed[i] or sizes[extent] <= share:
            due[extent] = nexts[i]
        while used[own] > share:
            total -= _remove_farthest(first, after, due, used, sizes, own)
        held[i] = total
