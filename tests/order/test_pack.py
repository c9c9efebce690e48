"""Best-fit packing inside one range of documents."""

import numpy as np
import pytest

from gristmill.order.pack import RANGE_DOCUMENTS, pack_range


def packed(lengths, seq_len):
    """Full windows, and the remainders of each packed bin."""
    full, order, starts = (np.zeros(len(lengths), dtype=np.uint32) for _ in range(3))
    windows, pieces, bins = pack_range(np.array(lengths), seq_len, full, order, starts)
    return windows, [part.tolist() for part in np.split(order[:pieces], starts[1:bins])] if bins else []


@pytest.mark.parametrize(
    ("lengths", "windows", "bins"),
    [
        ([6, 4, 5, 3], 0, [[0, 1], [2, 3]]),  # the longest first, each where it fits best
        ([3, 7, 3, 4], 0, [[1, 0], [3, 2]]),  # equal ones in the order of documents
        ([10, 20, 25], 5, [[2]]),  # full windows are bins of their own, and a remainder of 0 is none
        ([9, 9], 0, [[0], [1]]),
    ],
)
def test_remainders_go_where_they_leave_least_room(lengths, windows, bins):
    assert packed(lengths, 10) == (windows, bins)


def test_ranges_bound_the_work_and_join_without_a_gap():
    lengths = np.random.default_rng(0).integers(1, 90, 1000)
    full, order, starts = (np.zeros(1000, dtype=np.uint32) for _ in range(3))
    windows, pieces, bins = pack_range(lengths, 32, full, order, starts)
    assert windows == (lengths // 32).sum()
    assert pieces == (lengths % 32 > 0).sum()
    assert sorted(order[:pieces].tolist()) == np.flatnonzero(lengths % 32).tolist()
    sizes = np.add.reduceat((lengths % 32)[order[:pieces]], starts[:bins])
    assert sizes.max() <= 32
    assert RANGE_DOCUMENTS == 65_536  # part of every pack plan's fingerprint
