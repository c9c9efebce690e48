"""How a run goes, by its record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill as gm
from gristmill.figures.run import run_figures
from gristmill.figures.served import as_run
from gristmill.loader import record


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which moves only when it is told to."""
    now = [1000.0]
    monkeypatch.setattr(record.time, "time", lambda: now[0])
    return now


def test_rates_are_those_of_the_last_minute(
    tmp_path: Path, make_store: Callable[..., Path], clock: list[float]
) -> None:
    store = make_store(tmp_path / "store", [[1, 2, 3, 4, 5, 6, 7]] * 400) / "train"
    plan = gm.Plan({"web": store, "code": store}, {"web": "3/4", "code": "1/4"}, seq_len=8, batch_size=4, steps=100)
    kept = record.Record(tmp_path / "served.parquet", plan)
    for step in range(60):
        clock[0] += 10.0 if step < 30 else 2.0
        kept.served(step, 32, 0.5)
    kept.close()
    found = run_figures(as_run(tmp_path), now=clock[0] + 5)
    assert (found.step, found.steps, found.tokens) == (59, 100, 60 * 32)
    assert found.steps_per_second == pytest.approx(0.5, rel=0.1) and found.tokens_per_second == pytest.approx(
        16, rel=0.1
    )
    assert found.waited_share == pytest.approx(0.25, rel=0.1) and found.silent_seconds == 5.0
    assert found.seconds_left == pytest.approx(80, rel=0.1) and found.loss is None
    assert [(each.source, each.target) for each in found.mix] == [("web", 0.75), ("code", 0.25)]
    assert sum(each.share for each in found.mix) == pytest.approx(1.0)


def test_a_single_step_has_no_rate_yet(tmp_path: Path, clock: list[float]) -> None:
    kept = record.Record(tmp_path / "served.parquet")
    kept.served(7, 32, 0.5)
    kept.close()
    found = run_figures(as_run(tmp_path), now=1000.0)
    assert (found.step, found.tokens_per_second, found.waited_share, found.seconds_left) == (7, 0.0, 0.0, None)
    assert found.tokens == 32 and found.mix == []
