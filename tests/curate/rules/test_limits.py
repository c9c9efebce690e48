"""A figure against its limit: ends included, the first that breaks decides."""

from __future__ import annotations

import numpy as np

from gristmill.curate.rules.limits import Limit, first_broken


def test_the_ends_of_a_limit_are_inside_it() -> None:
    assert Limit("words", least=2, most=4).broken(np.array([1.0, 2, 3, 4, 5])).tolist() == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert Limit("words", least=2).broken(np.array([1.0, 1e300])).tolist() == [True, False]
    assert Limit("words").broken(np.array([-np.inf, np.inf])).tolist() == [False, False]


def test_a_figure_that_is_no_number_breaks_nothing() -> None:
    assert not Limit("share", least=0, most=1).broken(np.array([np.nan])).any()


def test_the_first_limit_that_a_document_breaks_is_its_reason_with_its_figure() -> None:
    limits = [Limit("too_short", least=10), Limit("too_many_digits", most=0.5)]
    judged = first_broken(limits, [np.array([5.0, 50, 50, 5]), np.array([0.9, 0.9, 0.1, 0.1])])
    assert judged.reasons == ["too_short", "too_many_digits"]
    assert judged.codes.tolist() == [0, 1, -1, 0] and judged.kept.tolist() == [False, False, True, False]
    assert judged.values is not None
    np.testing.assert_array_equal(judged.values, [5, 0.9, np.nan, 5])
