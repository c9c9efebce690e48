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
        self.located: list[int] = []
        self.supply: Any = self
        self.readers = 0

    def enter(self) -> None:
        self.readers += 1

    def leave(self, wait: bool) -> None:
        self.readers -= 1

    def then(self, task: Any) -> None:
        task()

    def ask_ahead(self, numbers: Ints) -> int:
        self.asked.extend(numbers.tolist())
        return 10 * len(numbers)


def ahead_of(held: Held, most: int, fail_at: int = STEPS, each: int = 2) -> FetchAhead[Ints]:
    """Of groups of one step, each of which touches extents of its own."""

    def locate(steps: range) -> Ints:
        if steps.start >= fail_at:
            raise ValueError("no such step")
        held.located.append(steps.start)
        return each * steps.start + np.arange(each)

    lists = ([range(i, i + 1)] for i in range(STEPS))
    return FetchAhead(held, lists, locate, lambda found: (found, np.zeros_like(found)), most)  # type: ignore[arg-type]


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


def test_readers_are_given_what_was_found_out_and_find_it_themselves_where_they_were_quicker() -> None:
    held = Held()
    ahead = ahead_of(held, most=50)
    assert held.located == [0, 1, 2]
    assert ahead.located(range(1)).found.tolist() == [0, 1] and held.located == [0, 1, 2]
    assert ahead.located(range(1)).found.tolist() == [0, 1] and held.located == [0, 1, 2, 0]
    ahead.reached(40)
    assert ahead.located(range(1, 2)).found.tolist() == [2, 3] and held.located[4:] == [40, 41, 42, 1]
    assert ahead.located(range(41, 42)).found.tolist() == [82, 83] and held.located[8:] == []


def test_where_nothing_has_to_come_it_looks_ahead_for_some_groups_alone() -> None:
    held = Held()
    ahead = ahead_of(held, most=50, each=0)
    assert held.located == list(range(64))
    ahead.reached(10)
    assert held.located == list(range(74))


def test_several_groups_are_located_at_once_and_asked_for_one_by_one() -> None:
    held, located = Held(), []

    def locate(steps: range) -> range:
        located.append(steps)
        return steps

    def touched(steps: range) -> tuple[Ints, Ints]:
        """Each step uses an extent of its own, and the list's first one uses another."""
        numbers = np.concatenate([[1000 + steps.start], np.arange(steps.start, steps.stop)])
        return numbers, np.append(0, np.arange(len(steps)))

    lists = [[range(2)], [range(2, 4), range(4, 7), range(7, 8)], [range(8, 9), range(9, 12)]]
    ahead = FetchAhead(held, iter(lists), locate, touched, 60)  # type: ignore[arg-type]
    assert located == [range(2), range(2, 8)] and held.asked == [1000, 0, 1, 1002, 2, 3]
    ahead.reached(2)
    assert held.asked[6:] == [4, 5, 6]
    assert ahead.located(range(4, 7)) == (range(2, 8), range(2, 5)) and len(located) == 2
    ahead.reached(9)  # which passes a group of either list
    assert held.asked[9:] == [1009, 9, 10, 11] and located[2:] == [range(9, 12)]
    assert ahead.located(range(9, 12)) == (range(9, 12), range(3)) and len(located) == 3
