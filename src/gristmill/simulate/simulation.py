"""A run before it runs: what a node fetches, holds and waits for, by the order of its plan.

Bytes and requests are exact, as far as the run is walked: extents, read-ahead and eviction are the loader's. Time is a
model (`kernels.py`). Runs of more than some million samples a node are walked from their beginning, and the rest is
taken to go on like the second half of what was walked; `simulated_steps` says how far that is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.core.options import as_options
from gristmill.order.plan import Plan
from gristmill.simulate.course import Course
from gristmill.simulate.node import Node
from gristmill.simulate.options import SimulateOptions
from gristmill.store.opening import as_store

_STRETCHES = 60
# More than this share of the time is a stall that somebody would do something about.
_NOTICED = 0.001
_TRIES = 8


@dataclass(frozen=True)
class Stretch:
    """Some steps of the run: what came in them, how long they took and waited, and what the cache held at their end."""

    from_step: int
    to_step: int
    bytes: int
    requests: int
    seconds: float
    stalled_seconds: float
    cache_bytes: int


@dataclass(frozen=True)
class Simulation:
    """What one node does in a run of `steps` steps, of which `simulated_steps` were walked; cost is that of all nodes.

    seconds: the whole run. first_batch_seconds: from the loader's start to its first batch, which is no stall.
    stalled_share: of the time after the first batch. smallest_cache_bytes: with that much no more is waited than with a
    cache that holds everything, under which `least_stalled_share` of the time is.
    """

    steps: int
    simulated_steps: int
    ranks: int
    nodes: int
    bytes: int
    served_bytes: int
    requests: int
    cost: float | None
    seconds: float
    first_batch_seconds: float
    stalled_seconds: float
    stalled_share: float
    cache_bytes: int
    smallest_cache_bytes: int
    least_stalled_share: float
    stretches: list[Stretch]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)


def simulate(plan: Plan, options: SimulateOptions | Mapping[str, object] | None = None) -> Simulation:
    """See `Plan.simulate`."""
    options = as_options(SimulateOptions, options)
    end = _end(plan, options)
    node, steps = Node(plan, options, end), plan.skips.served(end)
    course, best = node.course(options.cache_bytes), node.course(None)
    more = steps - node.steps
    size, requests = round(course.over(course.bytes, more)), round(course.over(course.requests, more))
    return Simulation(
        steps=steps,
        simulated_steps=node.steps,
        ranks=options.ranks,
        nodes=options.nodes,
        bytes=size,
        served_bytes=_served(plan, options, end),
        requests=requests,
        cost=options.cost(size, requests) * options.nodes if options.priced else None,
        seconds=course.duration(more),
        first_batch_seconds=float(course.waits[0]),
        stalled_seconds=course.over(course.waits, more) - float(course.waits[0]),
        stalled_share=course.stalled_share,
        cache_bytes=int(course.held.max()),
        smallest_cache_bytes=_smallest(node, best.stalled_share),
        least_stalled_share=best.stalled_share,
        stretches=_stretches(course),
    )


def _end(plan: Plan, options: SimulateOptions) -> int:
    """The step at which the simulated run ends."""
    end = plan.total_steps if options.steps is None else options.steps
    if end is None:
        raise ConfigError("This plan is endless: say how many steps of it are simulated.", arguments="steps")
    plan.segment(end - 1)  # which may refuse
    return end


def _served(plan: Plan, options: SimulateOptions, end: int) -> int:
    """Bytes of the tokens in a node's batches."""
    sizes = {source.name: as_store("A source", source.store).dtype.itemsize for source in plan.sources}
    return sum(row.tokens * sizes[row.name] for row in plan.forecast(end).sources) // options.nodes


def _smallest(node: Node, least: float) -> int:
    """The smallest cache, to 1 %, with which no more is waited than with one that holds everything."""

    def suffices(cache: int) -> bool:
        return node.course(cache).stalled_share <= least + _NOTICED

    if suffices(0):
        return 0
    low, high = 0, node.most_used()
    for _ in range(_TRIES):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def _stretches(course: Course) -> list[Stretch]:
    """The course in up to 60 parts."""
    edges = np.unique(np.linspace(0, len(course.begins), _STRETCHES + 1).astype(np.int64))
    times = np.append(course.begins, course.seconds)
    sizes, requests = (
        np.diff(np.append(0, figures.cumsum())[edges].round()) for figures in (course.bytes, course.requests)
    )
    return [
        Stretch(a, b, int(size), int(count), float(times[b] - times[a]), float(course.waits[max(a, 1) : b].sum()),
                int(course.held[b - 1]))
        for (a, b), size, count in zip(itertools.pairwise(edges.tolist()), sizes, requests, strict=True)
    ]  # fmt: skip
