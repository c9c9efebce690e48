"""Requests are what neither memory nor the cache of the node has; neighbours are asked for together."""

from __future__ import annotations

import numpy as np

from gristmill.simulate.fetches import Fetches, Places, fetched
from gristmill.simulate.uses import Uses

KIB = 1024
SIZE = 100 * KIB


def places(*starts: int) -> Places:
    """Extents of one shard, 100 KiB each."""
    at = np.array(starts, dtype=np.int64) * KIB
    return Places(np.zeros_like(at), at, at + SIZE)


def asked(uses: list[tuple[int, int, int]], where: Places, memory: int = SIZE, cache: int | None = 0) -> Fetches:
    columns = np.array(uses, dtype=np.int64).T.copy()
    return fetched(Uses(*(column.copy() for column in columns)), where, memory, cache)


def test_what_is_in_memory_is_not_asked_for_again() -> None:
    found = asked([(0, 0, 0), (0, 1, 0), (0, 2, 1), (0, 3, 0)], places(0, 500))
    assert found.groups.tolist() == [0, 2, 3] and found.sizes.tolist() == [SIZE] * 3


def test_neighbours_of_a_group_are_one_request_up_to_a_megabyte() -> None:
    touching = places(*range(0, 1500, 100))
    together = asked([(0, 0, extent) for extent in range(15)], touching)
    assert together.sizes.tolist() == [10 * SIZE, 5 * SIZE]
    apart = asked([(0, extent, extent) for extent in range(3)], touching)
    assert apart.sizes.tolist() == [SIZE] * 3
    backwards = asked([(0, 0, 1), (0, 0, 0)], touching)
    assert backwards.sizes.tolist() == [SIZE] * 2


def test_what_one_rank_has_fetched_the_others_find_in_the_cache() -> None:
    uses = [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)]
    assert len(asked(uses, places(0, 500)).sizes) == 4
    shared = asked(uses, places(0, 500), cache=None)
    assert shared.ranks.tolist() == [0, 0] and shared.held.tolist() == [104 * KIB, 208 * KIB]


def test_a_cache_that_is_too_small_keeps_what_is_used_next() -> None:
    uses = [(0, group, extent) for group, extent in enumerate([0, 1, 2, 0, 1, 2])]
    found = asked(uses, places(0, 500, 1000), cache=2 * 104 * KIB)
    assert len(found.sizes) == 4 and found.held.max() <= 2 * 104 * KIB
    assert len(asked(uses, places(0, 500, 1000), cache=3 * 104 * KIB).sizes) == 3


def test_extents_too_small_for_a_file_of_their_own_are_not_kept() -> None:
    where = Places(np.zeros(2, np.int64), np.array([0, 500 * KIB]), np.array([8 * KIB, 508 * KIB]))
    uses = [(0, group, group % 2) for group in range(4)]
    assert len(asked(uses, where, memory=8 * KIB, cache=None).sizes) == 4
