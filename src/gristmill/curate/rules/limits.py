"""Rules that measure figures of a document and hold each against a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gristmill.curate.base import KEEP, Values, Verdict


@dataclass(frozen=True)
class Limit:
    """What a figure must keep to, ends included; None is no limit."""

    reason: str
    least: float | None = None
    most: float | None = None

    def broken(self, figures: Values) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Where a figure is beyond; one that is not a number never is."""
        below = figures < (-np.inf if self.least is None else self.least)
        return np.asarray(below | (figures > (np.inf if self.most is None else self.most)))


def first_broken(limits: Sequence[Limit], figures: Sequence[Values]) -> Verdict:
    """The first limit that each document breaks, and the figure that broke it."""
    codes, values = np.full(len(figures[0]), KEEP, np.int16), np.full(len(figures[0]), np.nan)
    for code, (limit, column) in enumerate(zip(limits, figures, strict=True)):
        fresh = limit.broken(column) & (codes == KEEP)
        codes[fresh], values[fresh] = code, column[fresh]
    return Verdict([limit.reason for limit in limits], codes, values)
