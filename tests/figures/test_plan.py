"""The figures of a plan, of a batch and of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gristmill as gm
from gristmill.figures.plan import batch_figures, plan_figures, state_figures


@pytest.fixture
def plan(store: Path) -> gm.Plan:
    later = gm.Phase(from_step=4, weights={"a": "0.25", "b": "0.75"})
    return gm.Plan({"a": gm.open(store), "b": gm.open(store / "val")}, {"a": "0.5", "b": "0.5"}, seq_len=16,
                   batch_size=4, steps=8, options=gm.PlanOptions(phases=[later]))  # fmt: skip


def test_a_plan_has_its_phases_with_exact_weights_and_what_it_has_served_at_its_end(plan: gm.Plan) -> None:
    figures = plan_figures(plan)
    assert [(phase.from_step, phase.to_step) for phase in figures.phases] == [(0, 4), (4, 8)]
    assert figures.phases[1].weights == {"a": "0.25", "b": "0.75"}
    assert figures.forecast == plan.forecast() and "phases" not in figures.options


def test_an_endless_plan_is_looked_at_for_a_thousand_steps_unless_it_is_said(store: Path) -> None:
    endless = gm.Plan({"a": gm.open(store), "b": gm.open(store / "val")}, seq_len=16, batch_size=4)
    assert plan_figures(endless).forecast.step == 1000 and plan_figures(endless, 7).forecast.step == 7
    assert plan_figures(endless).steps is None and plan_figures(endless).phases[-1].to_step is None


def test_a_row_of_a_batch_has_its_first_tokens_and_all_documents_behind_it(plan: gm.Plan, store: Path) -> None:
    batch = gm.Loader(plan, threads=0).batch(5)
    rows = batch_figures(plan, batch, 5, gm.open(store).decode)
    assert [row.tokens for row in rows] == batch["input_ids"][:4, :24].tolist()
    assert [found for row in rows for found in row.documents] == plan.trace(5)
    assert rows[0].text == gm.open(store).decode(rows[0].tokens)


def test_a_checkpoint_is_shown_as_it_is_and_checked_against_a_plan_that_is_named(plan: gm.Plan, tmp_path: Path) -> None:
    loader = gm.Loader(plan, threads=0)
    loader.seek(3)
    state = json.loads(json.dumps(loader.state_dict()))
    plan.save(tmp_path / "plan.json")
    assert state_figures(state, None) == state
    assert state_figures(state, str(tmp_path / "plan.json"))["belongs to"] == str(tmp_path / "plan.json")
    with pytest.raises(gm.StateError):
        state_figures({**state, "digest": "0" * 16}, str(tmp_path / "plan.json"))
