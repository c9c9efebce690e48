"""The walk of lanes through units: every unit once an epoch, whatever the numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill as gm
from gristmill.core.hashing import derive_key
from gristmill.order.permute import permute
from gristmill.streams.lanes import Walk


def walked(walk: Walk) -> list[tuple[int, int]]:
    """What all lanes of a walk that ends have read."""
    found = []
    for lane in range(walk.lanes):
        turn = 0
        while units := walk.turn(lane, turn):
            assert len({epoch for epoch, _ in units}) == 1 and len(units) <= walk.hold
            found += units
            turn += len(units)
    return found


@given(units=st.integers(1, 40), lanes=st.integers(1, 60), epochs=st.integers(1, 4), hold=st.integers(1, 5),
       key=st.none() | st.integers(0, 2**64 - 1))  # fmt: skip
def test_each_unit_is_read_once_an_epoch(units: int, lanes: int, epochs: int, hold: int, key: int | None) -> None:
    found = Counter(walked(Walk(units, lanes, key, epochs, hold)))
    assert found == Counter((epoch, unit) for epoch in range(epochs) for unit in range(units))


@given(units=st.integers(1, 40), lanes=st.integers(1, 60), lane=st.integers(0, 59), turn=st.integers(0, 100))
def test_a_walk_without_end_never_leaves_a_lane_without_units(units: int, lanes: int, lane: int, turn: int) -> None:
    ((epoch, unit),) = Walk(units, lanes, key=1).turn(lane % lanes, turn)
    assert epoch == (lane % lanes + turn * lanes) // units and 0 <= unit < units


def test_without_a_key_lanes_take_units_in_turn() -> None:
    assert [Walk(5, 2).turn(lane, turn) for turn in range(3) for lane in range(2)] == [
        [(0, 0)], [(0, 1)], [(0, 2)], [(0, 3)], [(0, 4)], [(1, 0)]
    ]  # fmt: skip


def test_the_order_of_units_is_pinned() -> None:
    assert [Walk(7, 3, key=5).turn(lane, turn)[0] for lane in range(3) for turn in range(4)] == GOLDEN


@pytest.mark.parametrize("units", [255, 256, 257, 1000])
def test_many_units_are_put_in_order_some_at_a_time(units: int) -> None:
    found = [Walk(units, 1, key=3).turn(0, units + place)[0] for place in range(units)]
    order = permute(np.arange(units), units, derive_key(3, "units", 1))
    assert found == [(1, unit) for unit in order.tolist()]


def test_epochs_have_orders_of_their_own() -> None:
    orders = {tuple(Walk(20, 1, key=9).turn(0, 20 * epoch + i)[0][1] for i in range(20)) for epoch in range(5)}
    assert len(orders) == 5


def test_a_stream_without_units_is_refused() -> None:
    with pytest.raises(gm.ConfigError, match="no files"):
        Walk(0, 4)


GOLDEN = [(0, 1), (0, 3), (0, 6), (1, 6), (0, 0), (0, 4), (1, 4), (1, 1), (0, 2), (0, 5), (1, 0), (1, 5)]
