"""A dry run on a screen."""

from __future__ import annotations

import pytest

from gristmill.show.forecast import show_forecast
from gristmill.stages.forecast import RunForecast


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
