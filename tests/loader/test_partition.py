"""Which rows are a rank's: r, r + w, r + 2w, ... of every global batch, the short last one too."""

import numpy as np
import pytest

import gristmill as gm
from gristmill.loader.partition import Partition
from gristmill.testing import tiny_store

SAMPLES = np.arange(3 * 10).reshape(10, 3)  # two batches of four rows and a short one of two


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_ranks_take_turns_in_each_batch_and_leave_no_row(world_size):
    parts = [Partition(rank, world_size).own(SAMPLES, 4) for rank in range(world_size)]
    for batch, rows in ((0, range(4)), (1, range(4, 8)), (2, range(8, 10))):
        for rank, part in enumerate(parts):
            size = 4 // world_size
            expected = SAMPLES[rows.start + rank : rows.stop : world_size]
            assert np.array_equal(part[batch * size : batch * size + len(expected)], expected)
    assert sum(map(len, parts)) == 10


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2), (0, 0), (0, 3)])
def test_a_rank_that_does_not_exist_or_rows_that_cannot_be_split_are_refused(tmp_path, rank, world_size):
    plan = gm.Plan({"web": tiny_store(tmp_path)}, seq_len=16, batch_size=4)
    with pytest.raises(gm.ConfigError, match=r"rank|world_size|ranks"):
        Partition(rank, world_size).check(plan)
