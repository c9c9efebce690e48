"""Files that commands linked, copied, built or learnt, on a screen."""

from __future__ import annotations

import pytest

from gristmill.figures.bench import Asked, Delivered
from gristmill.show.reports import show_bench, show_exchange, show_forecast, show_trained
from gristmill.stages.forecast import RunForecast
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


def test_speeds_are_in_million_tokens_and_waits_in_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    show_bench("corpus", Asked(2048, 64, "pack"), [Delivered(0, 12_340_000.0, 94.14, 0.0315)])
    title, columns, row = capsys.readouterr().out.splitlines()
    assert title == "corpus: pack 2048 x 64"
    assert columns.split("  ")[0] == "threads" and row.split() == ["0", "12.3", "94.1", "31.5"]


def forecast(rules: bool) -> RunForecast:
    reasons = [{"rule": "length", "alone": 3, "only": 1, "in_order": 2, "reasons": {"too_few_chars": 2}}]
    return {
        "out": "corpus", "steps": ["read", "length"], "workers": 2,
        "sources": [{"source": "web", "files": 1, "bytes": 9000, "units": 1, "documents": 40, "text_bytes": 8000}],
        "estimate": {"documents": 1000, "seconds": 5}, "range": {"documents": [900, 1100], "seconds": [5, 5]},
        "sample": {"documents": 40, "kept": 38, "bytes_read": 1, "bytes_kept": 1, "tokens": 1, "seconds": 0.1,
                   "rules": reasons if rules else []},
    }  # type: ignore[typeddict-item]  # fmt: skip


def test_inputs_steps_rules_and_an_estimate_with_its_range(capsys: pytest.CaptureFixture[str]) -> None:
    show_forecast(forecast(rules=True))
    out = capsys.readouterr().out
    assert out.startswith("inputs of corpus\n") and "steps: read > length; 2 workers\n" in out
    assert "documents dropped of a sample of 40, 38 kept\n" in out and "    too_few_chars 2\n" in out
    assert "documents  1,000 (900 to 1,100)\nseconds    5\n" in out


def test_without_rules_nothing_is_said_of_a_sample(capsys: pytest.CaptureFixture[str]) -> None:
    show_forecast(forecast(rules=False))
    assert "sample" not in capsys.readouterr().out
