"""Steps that a plan passes over: they count as consumed and are never served."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np

from gristmill.core.arrays import Ints, Mask
from gristmill.order.options import Skip


class Skips:
    """Skipped ranges of steps, merged and sorted."""

    def __init__(self, skips: Sequence[Skip]) -> None:
        self._given = tuple(skips)
        self.ranges = _merged([(skip.from_step, skip.to_step) for skip in skips])
        self._starts = [start for start, _ in self.ranges]

    def covers(self, step: int) -> bool:
        """Whether the step is passed over."""
        return self.next_served(step) != step

    def cover(self, steps: Ints) -> Mask:
        """Which of many steps are passed over."""
        if not self.ranges:
            return np.zeros(len(steps), np.bool_)
        starts, ends = np.array(self.ranges, dtype=np.int64).T
        found = np.searchsorted(starts, steps, side="right") - 1
        covered: Mask = (found >= 0) & (steps < ends[np.maximum(found, 0)])
        return covered

    def next_served(self, step: int) -> int:
        """The first step at or after `step` that is served."""
        i = bisect.bisect_right(self._starts, step) - 1
        return max(step, self.ranges[i][1]) if i >= 0 else step

    def first_skipped(self, step: int, end: int) -> int:
        """Where the served steps from `step` on end: at the next skipped range, or at `end`."""
        i = bisect.bisect_right(self._starts, step)
        return min(end, self._starts[i]) if i < len(self._starts) else end

    def last_served(self, step: int) -> int:
        """The last step before `step` that is served, or -1."""
        step -= 1
        for start, end in reversed(self.ranges):
            if start <= step < end:
                step = start - 1
        return step

    def served(self, step: int) -> int:
        """How many steps before `step` are served."""
        return step - sum(max(0, min(end, step) - start) for start, end in self.ranges)

    def before(self, step: int) -> list[list[int]]:
        """The skipped ranges that reach before `step`, cut off there; rewritten history is left out."""
        kept = [
            (s.from_step, min(s.to_step, step)) for s in self._given if s.from_step < step and not s.rewrite_history
        ]
        return [list(item) for item in _merged(kept)]


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
