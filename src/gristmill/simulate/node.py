"""One node of a run: what its ranks use is found once, and can then be fetched, kept and timed under any limit."""

from __future__ import annotations

import itertools

import numpy as np

from gristmill.core.arrays import Mask
from gristmill.loader.batch import framed_rows
from gristmill.loader.demand import Demand
from gristmill.loader.fill import DTYPES
from gristmill.loader.groups import GroupSize, group_size, groups_of
from gristmill.loader.loader import READAHEAD_BYTES, THREADS
from gristmill.loader.partition import Partition
from gristmill.order.plan import Plan
from gristmill.places.workers import fewer_of
from gristmill.simulate.course import Course, Figures
from gristmill.simulate.fetches import Fetches, Places, fetched
from gristmill.simulate.options import SimulateOptions
from gristmill.simulate.uses import uses_of
from gristmill.store.frames import CACHE_BYTES
from gristmill.store.supply import REQUESTS

# Of a node, and of all nodes, whose order has to be computed: some seconds each.
_MOST_SAMPLES, _MOST_ROWS = 1 << 23, 1 << 25


class Node:
    """The first node of a run of a plan until step `end`, or as far as some million samples go."""

    def __init__(self, plan: Plan, options: SimulateOptions, end: int) -> None:
        self._plan, self._options = plan, options
        world = options.nodes * options.ranks
        self._partitions = [Partition(rank, world) for rank in range(options.ranks)]
        self._partitions[0].check(plan)
        end = min(end, _reach(plan, options.nodes))
        groups = list(itertools.takewhile(lambda group: group.start < end, groups_of(plan, 0, self._steps_a_group)))
        groups[-1] = range(groups[-1].start, min(groups[-1].stop, end))
        self._groups = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        demand = Demand(plan, options.labels)
        uses = uses_of(plan, demand, self._partitions, groups)
        numbers, dense = np.unique(uses.extents, return_inverse=True)
        self._uses, self._places = uses._replace(extents=dense), Places(*demand.byte_ranges(numbers))
        self._sums = demand.side_bytes()
        self._memory = CACHE_BYTES + 2 * READAHEAD_BYTES + demand.window_bytes()

    @property
    def steps(self) -> int:
        """How many steps were walked."""
        return len(self._groups)

    def _group_size(self, step: int) -> GroupSize:
        segment = self._plan.segment(step)
        keys = ("input_ids", "labels") if self._options.labels else ("input_ids",)
        row_bytes = segment.seq_len * sum(np.dtype(DTYPES[key]).itemsize for key in keys)
        rows = self._partitions[0].rows(segment.batch_size)
        return group_size(rows, row_bytes, framed_rows(self._plan, segment.seq_len), READAHEAD_BYTES, THREADS)

    def _steps_a_group(self, step: int) -> int:
        return self._group_size(step).steps

    def course(self, limit: int | None) -> Course:
        """The run with a cache of `limit` bytes; None is one that holds everything."""
        asked = fetched(self._uses, self._places, self._memory, limit)
        begins, waits, along = np.empty(self.steps), np.empty(self.steps), np.zeros(len(asked.sizes), dtype=np.bool_)
        seconds = self._pass_time(asked, begins, waits, along)
        sizes, requests = self._by_step(asked, along)
        return Course(begins, waits, sizes, requests, asked.held[self._groups], seconds)

    def _pass_time(self, asked: Fetches, begins: Figures, waits: Figures, along: Mask) -> float:
        from gristmill.simulate.kernels import pass_time  # which imports Numba

        options, groups = self._options, int(self._groups[-1]) + 1
        names = asked.ranks * groups + asked.groups
        edges = np.searchsorted(names, np.arange(options.ranks)[:, None] * groups + np.arange(groups + 1))
        interval = 1 / options.requests_per_second if options.requests_per_second else 0.0
        network = np.array([options.bytes_per_second, options.latency_seconds, 0.0, interval])
        limits = np.array([READAHEAD_BYTES, self._group_size(0).ahead, THREADS, REQUESTS, fewer_of(REQUESTS)])
        placed = np.lexsort((asked.starts, asked.shards, names))
        requests = np.stack([asked.sizes, asked.shards, asked.groups, placed, asked.starts])
        known = np.zeros((options.ranks, len(self._sums)), dtype=np.int64)
        end = pass_time(
            edges, self._groups, requests, self._sums, known, network, limits, options.step_seconds,
            begins, waits, along,
        )  # fmt: skip
        return float(end)

    def _by_step(self, asked: Fetches, along: Mask) -> tuple[Figures, Figures]:
        """Bytes and requests: what a group asks for is spread over its steps; what others take `along` is no request.

        The sums of a shard are asked for by each rank that reads of it, if it finds all else in the cache, too.
        """
        read = self._places.shards[self._uses.extents]
        _, first = np.unique(self._uses.ranks * len(self._sums) + read, return_index=True)
        sums, groups, length = self._sums[read[first]], self._uses.groups[first], np.bincount(self._groups)
        sizes = np.bincount(asked.groups, asked.sizes, len(length)) + np.bincount(groups, sums, len(length))
        requests = np.bincount(asked.groups, ~along, len(length)) + np.bincount(groups, sums > 0, len(length))
        return (sizes / length)[self._groups], (requests / length)[self._groups]

    def most_used(self) -> int:
        """What no cache has to exceed: 1.5 times the bytes that were used and will be again, at their most."""
        groups, sizes = self._uses.groups, self._places.ends - self._places.starts
        last, first = np.zeros(len(sizes), dtype=np.int64), np.full(len(sizes), np.iinfo(np.int64).max)
        np.maximum.at(last, self._uses.extents, groups)
        np.minimum.at(first, self._uses.extents, groups)
        count = int(self._groups[-1]) + 2
        change = np.bincount(first, sizes, count) - np.bincount(last + 1, sizes, count)
        return int(1.5 * change.cumsum().max())


def _reach(plan: Plan, nodes: int) -> int:
    """The step until which a run is walked."""
    rows = max(segment.batch_size for segment in plan.segments)
    return max(min(_MOST_SAMPLES * nodes, _MOST_ROWS) // rows, 1)
