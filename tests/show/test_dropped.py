"""What was dropped, on a screen: counts by reason, then examples."""

from __future__ import annotations

import pytest

from gristmill.figures.dropped import Dropped, DroppedGroup, DroppedRow
from gristmill.show.dropped import show_documents, show_dropped, show_why_dropped


def row(id: str | None, detail: str | None, text: str | None = None) -> DroppedRow:
    return {"id": id, "source": "web", "path": "a.jsonl", "row": 7, "rule": "c4", "reason": "r", "value": 0.123456,
            "detail": detail, "text": text}  # fmt: skip


def shown(examples: list[DroppedRow], has_texts: bool, capsys: pytest.CaptureFixture[str]) -> str:
    show_dropped("corpus", Dropped(4, has_texts, [DroppedGroup("c4", "r", 1, {"web": 1}, examples)]))
    return capsys.readouterr().out


def test_reasons_have_their_share_and_examples_the_beginning_of_their_text(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown([row("d1", "few", "a\n b" * 100)], True, capsys)
    assert out.startswith("corpus: 4 documents were dropped.\n") and "c4    r               1  25.0%" in out
    assert "c4, r: 1 of 1\n" in out and "d1  web     0.1235  few\n" in out and "…" in out and "were not kept" not in out


def test_one_without_an_id_is_known_by_its_place_and_texts_that_were_not_kept_are_said_to_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = shown([row(None, "a span that was matched and is long")], False, capsys)
    assert "a.jsonl (7)" in out and "\n    a span that was matched and is long\n" in out
    assert "prepare with --keep-dropped" in " ".join(out.split())


def test_nothing_dropped_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_dropped("corpus", Dropped(0, True, []))
    assert capsys.readouterr().out == "corpus: 0 documents were dropped.\n"


def test_a_long_text_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_documents("d1", [{"store": "corpus", "start": 5, "text": "x" * 1500}, {"store": "other", "text": "short"}])
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["d1", "store  corpus", "start  5"]
    assert shown[3:5] == ["x" * 1000, "... the first 1,000 of 1,500 characters; --json gives all"]
    assert shown[-1] == "short"


def test_why_it_was_dropped_leaves_out_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    show_why_dropped("d1", [{"rule": "length", "value": None, "text": "tiny \x1b[31m"}])
    assert capsys.readouterr().out == "d1 was dropped\nrule  length\ntiny \\x1b[31m\n"
