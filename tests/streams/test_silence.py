"""Whether a stream without end has anything to give."""

from __future__ import annotations

from gristmill.streams.lanes import Walk
from gristmill.streams.silence import Silence
from gristmill.streams.unread import ALL_READ


def test_all_units_have_to_be_silent_since_a_document_was_met() -> None:
    silence = Silence(Walk(3, 2, key=1))
    for unit in (0, 1, 2, 1, 0):  # all of them, but never without a document between them
        assert silence.met([unit], {"length": 9}, ALL_READ, 9) is None
        silence.broken()
    for unit in (2, 0, 0):
        assert silence.met([unit], {"length": 2}, ALL_READ, 0) is None
    assert silence.met([1], {"length": 1}, ALL_READ, 0) == " (length dropped 5)"


def test_in_the_files_order_a_lane_comes_to_some_units_alone() -> None:
    silence = Silence(Walk(4, 2))
    assert silence.met([0], {"length": 1}, ALL_READ, 0) is None
    assert silence.met([2], {"length": 1}, ALL_READ, 1) == " (length dropped 2)"
