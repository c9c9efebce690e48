from __future__ import annotations

from gristmill.report.differences import side_by_side


def test_words_that_differ_are_marked_on_their_side() -> None:
    shown = side_by_side("old", "the mill grinds <corn>", "new", "the mill ground <corn> well")
    assert "the mill<del> grinds</del> &lt;corn&gt;" in shown
    assert "the mill<ins> ground</ins> &lt;corn&gt;<ins> well</ins>" in shown


def test_equal_texts_have_no_marks() -> None:
    shown = side_by_side("a", "same\n\ntext ", "b", "same\n\ntext ")
    assert "<del>" not in shown and "<ins>" not in shown and "same\n\ntext" in shown


def test_long_texts_are_cut_and_it_is_said() -> None:
    shown = side_by_side("a", "x" * 1_000_000, "b", "")
    assert len(shown) < 5000 and "998,000 characters more" in shown
