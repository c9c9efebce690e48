"""Files that commands linked, copied, built or learnt, on a screen."""

from __future__ import annotations

import pytest

from gristmill.show.exchange import show_exchange, show_trained
from gristmill.store.export import ExportReport
from gristmill.tokenize.training import TrainingReport


def test_links_come_before_copies_and_notes_before_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    show_exchange(ExportReport("npy", "out", ["a.npy"], ["b.npy"], ["Say no BOS."]), "in 1.0 s")
    assert capsys.readouterr().out == "linked   a.npy\ncopied   b.npy\nSay no BOS.\nDone in 1.0 s.\n"


def test_a_tokenizer_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    show_trained("t.json", TrainingReport("t.json", 300, 2, 4096, []), "in 1.0 s")
    learnt, done = capsys.readouterr().out.splitlines()
    assert learnt == "t.json holds 300 ids from 2 documents, 4,096 bytes: use it by --tokenizer t.json."
    assert done == "Done in 1.0 s."
