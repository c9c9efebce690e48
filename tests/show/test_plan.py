"""Plans, steps, batches and checkpoints on a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

import gristmill as gm
from gristmill.figures.plan import BatchRow, plan_figures
from gristmill.order.trace import Seen, TraceRow
from gristmill.show.plan import show_batch, show_places, show_plan, show_state
from gristmill.testing import tiny_store


def test_a_plan_shows_its_options_phases_and_what_its_sources_will_have_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = gm.Plan({"web": tiny_store(tmp_path)}, seq_len=16, batch_size=4, steps=100,
                   options=gm.PlanOptions(skip=[gm.Skip(5, 7)]))  # fmt: skip
    show_plan("the plan", plan_figures(plan))
    out = capsys.readouterr().out
    assert out.startswith(f"the plan\nfingerprint {plan.fingerprint}\n") and "\nskip: 1\n" in out
    assert "weights: web 1\n" in out and f"After 100 steps and {plan.tokens_before(100):,} tokens:\n" in out
    assert "new epochs begin at steps" in out and "tokens of an epoch fill no" in out


def test_the_steps_of_a_document_are_a_table_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    show_places("d1 is seen in", [Seen(3, 0, "web", 0)])
    assert capsys.readouterr().out.splitlines()[1].split() == ["step", "row", "source", "epoch"]
    show_places("d1 is seen in", [])
    assert capsys.readouterr().out == "d1 is seen in no step\n"


def test_a_batch_shows_how_rows_begin_and_their_first_document(capsys: pytest.CaptureFixture[str]) -> None:
    documents = [TraceRow(0, "web", "d1", 5, 20), TraceRow(0, "web", "d2", 0, 4)]
    show_batch(7, [BatchRow(0, [1, 2, 3, 4, 5, 6], "a\nb", documents)])
    title, _, row, below = capsys.readouterr().out.splitlines()
    assert title == "step 7" and row.split() == ["0", "web", "1", "2", "3", "4", "5", "…", "a⏎b"]
    assert below == "    d1 [5:20] and 1 more"


def test_a_checkpoint_leaves_the_parts_of_its_plan_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    show_state({"step": 12345, "parts": {"seed": 0}})
    assert capsys.readouterr().out == "checkpoint\nstep  12,345\n"
