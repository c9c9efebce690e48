"""Steps that are passed over: counted as consumed, never served."""

import pytest

from gristmill.order.options import Skip
from gristmill.order.skips import Skips

SKIPS = Skips([Skip(3, 5), Skip(9, 10), Skip(4, 6)])
SERVED = [0, 1, 2, 6, 7, 8, 10, 11]


def test_ranges_that_touch_are_one():
    assert SKIPS.ranges == [(3, 6), (9, 10)]


@pytest.mark.parametrize("step", range(12))
def test_each_question_agrees_with_a_list_of_the_served_steps(step):
    assert SKIPS.covers(step) == (step not in SERVED)
    assert SKIPS.served(step) == len([each for each in SERVED if each < step])
    assert SKIPS.next_served(step) == min(each for each in SERVED if each >= step)
    assert SKIPS.last_served(step) == max([-1, *(each for each in SERVED if each < step)])
    assert SKIPS.first_skipped(6, 12) == 9 and SKIPS.first_skipped(10, 12) == 12


def test_what_rewrites_history_is_no_part_of_the_past():
    skips = Skips([Skip(3, 5), Skip(6, 7, rewrite_history=True)])
    assert skips.before(4) == [[3, 4]] and skips.before(20) == [[3, 5]]
