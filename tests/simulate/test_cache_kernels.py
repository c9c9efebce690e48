"""What is kept: in memory what was used last, in the cache what is used next."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.simulate.cache_kernels import keep_latest, keep_nearest

USES = st.lists(st.integers(0, 7), min_size=1, max_size=80)
SIZES = st.lists(st.integers(1, 9), min_size=8, max_size=8)


@given(USES, SIZES, st.integers(1, 40))
def test_memory_keeps_what_was_used_last(uses: list[int], sizes: list[int], limit: int) -> None:
    missed, held = np.zeros(len(uses), dtype=np.bool_), np.zeros(len(uses), dtype=np.int64)
    keep_latest(np.array(uses), np.array(sizes), limit, missed, held)
    there, expected, totals = dict[int, int](), [], []
    for extent in uses:
        expected.append(there.pop(extent, None) is None)
        while there and sum(there.values()) + sizes[extent] > limit:
            there.pop(next(iter(there)))
        there[extent] = sizes[extent]
        totals.append(sum(there.values()))
    assert (missed.tolist(), held.tolist()) == (expected, totals)


@given(USES, SIZES, st.integers(1, 40), st.integers(1, 3))
def test_each_set_of_the_cache_keeps_what_is_used_next(
    uses: list[int], sizes: list[int], share: int, count: int
) -> None:
    nexts = [next((j for j in range(i + 1, len(uses)) if uses[j] == uses[i]), len(uses)) for i in range(len(uses))]
    missed, held = np.zeros(len(uses), dtype=np.bool_), np.zeros(len(uses), dtype=np.int64)
    sets = np.arange(8) % count
    keep_nearest(np.array(uses), np.array(nexts), sets, np.array(sizes), share, missed, held)
    there = dict[int, int]()
    for i, extent in enumerate(uses):
        assert missed[i] == (extent not in there)
        if extent in there or sizes[extent] <= share:
            there[extent] = nexts[i]
        own = [each for each in there if each % count == extent % count]
        while sum(sizes[each] for each in own) > share:
            farthest = max(there[each] for each in own)
            # Of several that are never used again any may go: take the one that the cache has let go of.
            tied = [each for each in own if there[each] == farthest]
            gone = tied[0] if len(tied) == 1 else _gone(tied, uses, i)
            own.remove(gone)
            del there[gone]
        assert held[i] <= share * count


def _gone(tied: list[int], uses: list[int], now: int) -> int:
    assert all(extent not in uses[now + 1 :] for extent in tied)
    return tied[0]
