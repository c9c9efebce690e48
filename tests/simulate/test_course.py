"""What a course comes to over more steps than were walked."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.simulate.course import Course


def course(waits: list[float]) -> Course:
    begins = np.cumsum(np.array(waits) + 1) - 1
    sizes = np.array([100.0, 0, 10, 10])
    return Course(begins, np.array(waits), sizes, sizes / 10, sizes.astype(np.int64), float(begins[-1] + 1))


def test_the_wait_for_the_first_batch_is_no_stall() -> None:
    assert course([5, 0, 0, 0]).stalled_share == 0
    assert course([5, 0, 1, 0]).stalled_share == pytest.approx(1 / 5)


def test_more_steps_go_on_like_the_second_half() -> None:
    found = course([5, 0, 0, 0])
    assert found.over(found.bytes, 0) == 120 and found.over(found.bytes, 6) == 180
    assert found.duration(0) == 9 and found.duration(6) == 15
