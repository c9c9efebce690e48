"""Groups of steps: the first is small, none crosses a phase or a skip, and memory bounds them."""

from __future__ import annotations

from pathlib import Path

import pytest

import gristmill as gm
from gristmill.loader.groups import group_size, groups_of, joined, step_after
from gristmill.testing import served_steps, tiny_store

SKIPS = gm.PlanOptions(skip=[gm.Skip(3, 5), gm.Skip(9, 10)])


@pytest.fixture
def plan(tmp_path: Path) -> gm.Plan:
    return gm.Plan({"web": tiny_store(tmp_path)}, seq_len=16, batch_size=4, steps=40, options=SKIPS)


def test_groups_are_all_served_steps_the_first_alone_and_no_skipped_one_inside(plan: gm.Plan) -> None:
    groups = list(groups_of(plan, 0, lambda step: 8))
    assert [list(group) for group in groups[:4]] == [[0], [1, 2], [5, 6, 7, 8], [10, 11, 12, 13, 14, 15, 16, 17]]
    assert [step for group in groups for step in group] == served_steps(plan)


def test_a_group_fits_a_part_of_the_memory_for_each_thread() -> None:
    assert group_size(rows=64, row_bytes=16_384, most_rows=256, readahead_bytes=64 << 20, threads=2) == (4, 4)
    assert group_size(rows=64, row_bytes=1 << 20, most_rows=256, readahead_bytes=64 << 20, threads=2) == (1, 2)
    assert group_size(rows=64, row_bytes=16_384, most_rows=256, readahead_bytes=64 << 20, threads=0) == (4, 0)


def test_groups_are_joined_where_none_is_missing_between_them_and_the_first_ones_stay_alone(plan: gm.Plan) -> None:
    groups = list(groups_of(plan, 0, lambda step: 2))
    lists = list(joined(iter(groups), lambda step: 8))
    assert [group for some in lists for group in some] == groups
    assert [[group.start for group in some] for some in lists] == [[0], [1], [5], [7], [10, 12, 14], [16, 18, 20, 22],
                                                                   [24, 26, 28, 30], [32, 34, 36, 38]]  # fmt: skip
    assert [len(some) for some in joined(iter(groups), lambda step: 1)] == [1] * len(groups)
    assert list(joined(iter([range(0, 6, 3), range(6, 9, 3), range(10, 13, 3)]), lambda step: 9)) == [
        [range(0, 6, 3)], [range(6, 9, 3)], [range(10, 13, 3)]
    ]  # fmt: skip


def test_step_after_counts_served_steps_alone(plan: gm.Plan) -> None:
    served = served_steps(plan)
    for start in range(20):
        ahead = [step for step in served if step >= start]
        for batches in range(1, len(ahead) + 1):
            assert step_after(plan, start, batches) == ahead[batches - 1] + 1
        assert step_after(plan, start, 0) == start
