"""The samples of coming steps, computed many at once: 64 indices cost almost as much to permute as 4,096."""

from __future__ import annotations

from gristmill.core.locks import Lock
from gristmill.order.permute import Ints, use_compiled
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
        """The rows of consecutive steps of one segment. A single step is computed alone: random access stays quick."""
        use_compiled()
        segment = self._plan.segment(steps.start)
        if len(steps) == 1 or len(steps) * segment.batch_size >= _SAMPLES:
            return self._plan.samples_of_steps(steps.start, len(steps))
        block = _SAMPLES // segment.batch_size
        first = segment.from_step + (steps.start - segment.from_step) // block * block
        rows = self._block(first, block, segment.to_step)
        if steps.stop > first + block:
            return self._plan.samples_of_steps(steps.start, len(steps))
        at = (steps.start - first) * segment.batch_size
        return rows[at : at + len(steps) * segment.batch_size]

    def _block(self, first: int, count: int, end: int | None) -> Ints:
        with self._lock:
            if first not in self._blocks:
                while len(self._blocks) >= _BLOCKS:
                    del self._blocks[min(self._blocks)]
                count = count if end is None else min(count, end - first)
                self._blocks[first] = self._plan.samples_of_steps(first, count)
            return self._blocks[first]
