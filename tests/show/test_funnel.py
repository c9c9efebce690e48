"""The funnel on a screen."""

from __future__ import annotations

from gristmill.show.funnel import commonest
from gristmill.show.terminal import JOIN


def test_the_three_commonest_reasons_are_named_and_the_rest_counted() -> None:
    reasons = {"a": 1, "b": 2000, "c": 30, "d": 4, "e": 5}
    assert commonest(reasons).replace(JOIN, " ") == "b 2,000, c 30, e 5, and 5 for 2 other reasons"
    assert commonest({"b": 2}) == f"b{JOIN}2" and commonest({}) == ""
