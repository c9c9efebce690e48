"""What ranks use is what their loaders would read, group by group."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gristmill as gm
from gristmill.loader.demand import Demand
from gristmill.loader.groups import groups_of
from gristmill.loader.partition import Partition
from gristmill.simulate import uses
from gristmill.simulate.uses import uses_of


@pytest.mark.parametrize("locality", [{"block": 512, "window": 4}, None])
@pytest.mark.parametrize("samples", [1 << 19, 64])
def test_the_uses_of_each_rank_are_the_extents_of_its_rows_in_order_of_first_use(
    plan_of: Callable[..., gm.Plan], monkeypatch: pytest.MonkeyPatch, locality: object, samples: int
) -> None:
    monkeypatch.setattr(uses, "_SAMPLES", samples)
    phases = [gm.Phase(13, batch_size=32)]
    plan = plan_of(40, locality=locality, skip=[gm.Skip(5, 7)], phases=phases)
    demand, partitions = Demand(plan, labels=True), [Partition(rank, 4) for rank in (0, 1)]
    groups = list(groups_of(plan, 0, lambda step: 4))
    found = uses_of(plan, demand, partitions, groups)
    assert (np.diff(found.ranks) >= 0).all()
    for rank, partition in enumerate(partitions):
        for number, steps in enumerate(groups):
            segment = plan.segment(steps.start)
            own = partition.own(plan.samples_of_steps(steps.start, len(steps)), segment.batch_size)
            expected = [column.tolist() for column in demand.extents(segment, own)]
            here = (found.ranks == rank) & (found.groups == number)
            assert [column.tolist() for column in demand.grid.placed(found.extents[here])] == expected
