"""When tokens are read next: what a cache may let go of is arithmetic, since the steps to come are known."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.order.phases import Segment
from gristmill.order.plan import Plan
from gristmill.places.eviction import READ


class NextUse:
    """For positions of a plan's stores end to end, how many steps after `step` they are read; a block is read as one.

    What was read for this epoch waits longest. Without locality, and where a sample is documents, it is not known.
    `mixed` are all steps of a mix of streams and stores, whose sources end with the plan's.
    """

    def __init__(self, plan: Plan, bases: Ints) -> None:
        self._plan, self._bases, self.step = plan, bases, 0
        self.mixed: Segment | None = None
        self._known = plan.options.cut == "chunk" and plan.options.locality is not None

    def __call__(self, positions: Ints) -> npt.NDArray[np.float64]:
        waits = np.full(len(positions), math.nan)
        if not self._known:
            return waits
        sources = np.searchsorted(self._bases, positions, side="right") - 1
        for k in np.unique(sources).tolist():
            here = sources == k
            waits[here] = self._of_source(k, positions[here] - self._bases[k])
        return waits

    def _of_source(self, k: int, tokens: Ints) -> npt.NDArray[np.float64]:
        segment = self.mixed or self._segment()
        lane, place = segment.lanes[k], k - len(segment.lanes)  # from the end, where streams come first
        share = float(segment.mix.weights[place]) * segment.batch_size
        epoch, index = lane.position(int(segment.given(max(self.step, segment.from_step))[place]))
        near = lane.order.locality
        assert near is not None
        samples = lane.order.waits(epoch, index, tokens // (near.block * segment.unit))
        return np.where(samples < 0, READ, samples / share if share else READ / 2)

    def _segment(self) -> Segment:
        end = self._plan.total_steps
        return self._plan.segment(self.step if end is None else min(self.step, end - 1))
