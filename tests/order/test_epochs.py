"""The order of an epoch: every sample once, another order each time, and the way back."""

import numpy as np
import pytest

from gristmill.order.epochs import UNITS_PER_BLOCK, EpochOrder

SHAPES = [(1, 1), (1000, 1), (64, 4), (200, 4), (63, 2)]


@pytest.mark.parametrize(("units", "parts"), SHAPES)
def test_an_epoch_takes_every_sample_once_and_the_next_one_in_another_order(units, parts):
    order = EpochOrder(key=7, units=units, parts=parts, shuffle=True)
    first, second = (order.samples_at(epoch, np.arange(order.samples)) for epoch in (0, 1))
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(order.samples))
    assert units == 1 or first.tolist() != second.tolist()


@pytest.mark.parametrize(("units", "parts"), SHAPES)
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_place_of_a_sample_is_found_without_a_search(units, parts, shuffle):
    order = EpochOrder(key=7, units=units, parts=parts, shuffle=shuffle)
    places = np.arange(order.samples)
    assert np.array_equal(order.index_of(3, order.samples_at(3, places)), places)


def test_whole_blocks_hold_whole_units_so_that_a_change_of_length_loses_nothing():
    order = EpochOrder(key=7, units=200, parts=4, shuffle=True)
    for block in range(200 // UNITS_PER_BLOCK):
        size = UNITS_PER_BLOCK * 4
        taken = order.samples_at(0, np.arange(block * size, (block + 1) * size))
        assert np.unique(taken // 4, return_counts=True)[1].tolist() == [4] * UNITS_PER_BLOCK


def test_without_a_shuffle_samples_come_as_they_lie():
    assert EpochOrder(key=7, units=5, parts=2, shuffle=False).samples_at(1, np.arange(10)).tolist() == list(range(10))
