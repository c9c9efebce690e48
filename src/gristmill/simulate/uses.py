"""Which extents the ranks of a node use, group after group: the order's own arithmetic, for many steps at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.loader.demand import Demand
from gristmill.loader.partition import Partition
from gristmill.order.permute import use_compiled
from gristmill.order.plan import Plan

# Samples whose places are found at once: 30 MB of columns.
_SAMPLES = 1 << 19


class Uses(NamedTuple):
    """Rank ranks[i] uses extent extents[i] in group groups[i], once each: by rank, group and first use."""

    ranks: Ints
    groups: Ints
    extents: Ints


def uses_of(plan: Plan, demand: Demand, partitions: list[Partition], groups: Iterable[range]) -> Uses:
    """All that the ranks use in groups of steps."""
    use_compiled()
    parts = [_used(plan, demand, partitions, *stretch) for stretch in _stretches(plan, groups)]
    found = Uses._make(np.concatenate(column) for column in zip(*parts, strict=True))
    by_rank = np.argsort(found.ranks, kind="stable")
    return Uses._make(column[by_rank] for column in found)


def _stretches(plan: Plan, groups: Iterable[range]) -> Iterator[tuple[range, Ints]]:
    """Groups that follow each other in a segment, as one range of steps, and the number of each step's group."""
    steps, numbers = range(0), list[int]()
    for number, group in enumerate(groups):
        segment = plan.segment(group.start)
        if group.start != steps.stop or group.start == segment.from_step or len(steps) * segment.batch_size >= _SAMPLES:
            if numbers:
                yield steps, np.array(numbers)
            steps, numbers = range(group.start, group.start), []
        steps = range(steps.start, group.stop)
        numbers += [number] * len(group)
    yield steps, np.array(numbers)


def _used(plan: Plan, demand: Demand, partitions: list[Partition], steps: range, groups: Ints) -> Uses:
    segment = plan.segment(steps.start)
    everyones, extents = plan.samples_of_steps(steps.start, len(steps)), int(demand.grid.firsts[-1])
    found = []
    for rank, partition in enumerate(partitions):
        rows, numbers = demand.touches(segment, partition.own(everyones, segment.batch_size))
        used = groups[rows // partition.rows(segment.batch_size)]
        names = used * extents + numbers
        _, first = np.unique(names, return_index=True)
        first.sort()
        found.append(Uses(np.full_like(first, rank), used[first], numbers[first]))
    return Uses._make(np.concatenate(column) for column in zip(*found, strict=True))
