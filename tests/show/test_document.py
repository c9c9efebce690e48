"""A document on a screen: where it is and how it begins, or why it is not there."""

from __future__ import annotations

import pytest

from gristmill.show.document import show_documents, show_why_dropped


def test_a_long_text_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_documents("d1", [{"store": "corpus", "start": 5, "text": "x" * 1500}, {"store": "other", "text": "short"}])
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["d1", "store  corpus", "start  5"]
    assert shown[3:5] == ["x" * 1000, "... the first 1,000 of 1,500 characters; --json gives all"]
    assert shown[-1] == "short"


def test_why_it_was_dropped_leaves_out_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    show_why_dropped("d1", [{"rule": "length", "value": None, "text": "tiny \x1b[31m"}])
    assert capsys.readouterr().out == "d1 was dropped\nrule  length\ntiny \\x1b[31m\n"
