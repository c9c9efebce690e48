"""What coming steps touch is asked for in order, before it is needed, and no further than the bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.loader.fetchahead import FetchAhead

STEPS = 100


class Held:
    """Stands for frames: notes what it is asked for, 10 bytes an extent, at once."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.supply: Any = self
        self.readers = 0

    def enter(self) -> None:
        self.readers += 1

    def leave(self, wait: bool) -> None:
        self.readers -= 1

    def then(self, task: Any) -> None:
        task()

    def ask_ahead(self, shards: Ints, places: Ints) -> int:
        self.asked.extend(places.tolist())
        return 10 * len(places)


def ahead_of(held: Held, most: int, fail_at: int = STEPS) -> FetchAhead:
    def touched(steps: range) -> tuple[Ints, Ints]:
        if steps.start >= fail_at:
            raise ValueError("no such step")
        return np.zeros(2, np.int64), np.array([2 * steps.start, 2 * steps.start + 1])

    return FetchAhead(held, (range(i, i + 1) for i in range(STEPS)), touched, most)  # type: ignore[arg-type]


def test_fetching_begins_at_once_and_slides_with_the_readers() -> None:
    held = Held()
    ahead = ahead_of(held, most=50)
    assert held.asked == list(range(6))
    ahead.reached(1)
    assert held.asked == list(range(8))
    ahead.reached(40)
    assert held.asked[8:] == [80, 81, 82, 83, 84, 85]  # what readers have passed is not asked for any more
    for step in range(41, STEPS + 1):
        ahead.reached(step)
    assert held.asked[8:] == list(range(80, 2 * STEPS))


def test_one_that_is_closed_or_met_an_error_asks_for_nothing_more() -> None:
    held = Held()
    closed, failed = ahead_of(held, most=10), ahead_of(Held(), most=10, fail_at=1)
    closed.close()
    closed.reached(50)
    failed.reached(50)
    assert held.asked == [0, 1] and held.readers == 0
