"""The samples of coming steps, computed many at once: 64 indices cost almost as much to permute as 4,096."""

from __future__ import annotations

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.locks import Lock
from gristmill.order.permute import use_compiled
from gristmill.order.plan import Plan

_SAMPLES = 8192
_BLOCKS = 4


class OrderAhead:
    """The last few blocks of about 8,192 samples that were asked for (200 KB each), shared by the reading threads."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._blocks: dict[int, Ints] = {}
        self._lock = Lock()

    def samples(self, steps: range) -> Ints:
        """The rows of evenly spaced steps of one segment. One step is computed alone: random access stays quick."""
        use_compiled()
        if len(steps) == 1:
            return self._plan.samples_of_steps(steps.start, 1)
        if steps.step == 1:
            return self._consecutive(steps)
        size = self._plan.segment(steps.start).batch_size
        count = max(1, _SAMPLES // (steps.step * size))
        return np.concatenate([self._spaced(steps[i : i + count], size) for i in range(0, len(steps), count)])

    def _spaced(self, steps: range, size: int) -> Ints:
        """Steps with a few others in between, which are computed too: that is cheaper than a call for each."""
        rows = self._plan.samples_of_steps(steps.start, steps[-1] + 1 - steps.start)
        return np.concatenate([rows[at : at + size] for at in range(0, len(rows), steps.step * size)])

    def _consecutive(self, steps: range) -> Ints:
        segment = self._plan.segment(steps.start)
        if len(steps) * segment.batch_size >= _SAMPLES:
            return self._plan.samples_of_steps(steps.start, len(steps))
        block = _SAMPLES // segment.batch_size
        first = segment.from_step + (steps.start - segment.from_step) // block * block
        inside, beyond = steps[: first + block - steps.start], steps[first + block - steps.start :]
        if beyond:
            return np.concatenate([self._consecutive(inside), self._consecutive(beyond)])
        at = (steps.start - first) * segment.batch_size
        return self._block(first, block, segment.to_step)[at : at + len(steps) * segment.batch_size]

    def _block(self, first: int, count: int, end: int | None) -> Ints:
        with self._lock:
            if first not in self._blocks:
                while len(self._blocks) >= _BLOCKS:
                    del self._blocks[min(self._blocks)]
                count = count if end is None else min(count, end - first)
                self._blocks[first] = self._plan.samples_of_steps(first, count)
            return self._blocks[first]
