"""Open addressing against dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.slots import (
    HASH_MAP,
    begin_use,
    first_place,
    hash_map,
    hash_set,
    key_of,
    new_sightings,
    slot_of,
)
from gristmill.core.kernels.types import BYTES, HASHES, INTS

WORDS = st.text(st.sampled_from("abcé漢"), max_size=4)


@entry(types.int64(HASH_MAP, BYTES))
def _number(numbers: Any, word: Any) -> Any:
    return numbers[1][slot_of(numbers[0], key_of(word, 0, word.size))]


@entry(types.void(HASHES, INTS, types.int64[::1]))
def _first_places(keys: Any, bounds: Any, out: Any) -> None:
    """By use of the table, which is one for all: where each key was first seen."""
    table = new_sightings(np.max(bounds[1:] - bounds[:-1]))
    for use in range(bounds.size - 1):
        base, shift = begin_use(table, bounds[use + 1] - bounds[use])
        for i in range(bounds[use], bounds[use + 1]):
            out[i] = first_place(table, base, shift, keys[i], i - bounds[use])


@settings(deadline=None)  # the first case compiles
@given(st.dictionaries(WORDS, st.integers(1, 1000)), st.lists(WORDS))
def test_a_map_has_the_number_of_each_member_and_0_for_others(numbers: dict[str, int], others: list[str]) -> None:
    made = hash_map(numbers)
    for word in [*numbers, *others]:
        assert _number(made, np.frombuffer(word.encode(), np.uint8)) == numbers.get(word, 0)
    members = hash_set(list(numbers))
    assert np.array_equal(members, made[0]) and len(members) >= 2 * len(numbers)
    assert len(set(members.tolist()) - {0}) == len(numbers)


# Few keys, so that many are equal; 0, and multiples that meet in one slot.
KEYS = st.lists(st.sampled_from([0, 1, 2, 1 << 63, (1 << 64) - 1, *range(3 << 60, (3 << 60) + 5)]), max_size=12)


@settings(deadline=None)
@given(st.lists(KEYS, min_size=1, max_size=6))
def test_a_place_is_that_of_first_sight_in_this_use_whatever_came_before(uses: list[list[int]]) -> None:
    keys = np.array([key for use in uses for key in use], np.uint64)
    out = np.empty(len(keys), np.int64)
    _first_places(keys, np.cumsum([0, *map(len, uses)], dtype=np.int64), out)
    assert out.tolist() == [use.index(key) for use in uses for key in use]
