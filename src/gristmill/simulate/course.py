"""The course of a run, step by step, and what it comes to over more steps than were walked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints

Figures = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Course:
    """For each step when it begins and how long it was waited for, what came for it, and what the cache then holds.

    seconds: until the last step has ended. The wait for the first batch is no stall: nothing was there before.
    """

    begins: Figures
    waits: Figures
    bytes: Figures
    requests: Figures
    held: Ints
    seconds: float

    @property
    def stalled_share(self) -> float:
        """Of the time after the first batch."""
        return float(self.waits[1:].sum() / max(self.seconds - self.begins[0], 1e-9))

    def later(self, figures: Figures) -> float:
        """What a step of the second half has: a run's start is no measure for the rest of it."""
        half = figures[len(figures) // 2 :]
        return float(half.mean()) if len(half) else 0.0

    def over(self, figures: Figures, more: int) -> float:
        """The sum of a figure, with `more` steps that are like the second half."""
        return float(figures.sum()) + more * self.later(figures)

    def duration(self, more: int) -> float:
        """Seconds until the end, with `more` steps."""
        return self.seconds + more * self.later(np.diff(self.begins))
