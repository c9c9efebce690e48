from __future__ import annotations

from pathlib import Path

import pytest

import gristmill as gm
from gristmill.figures.plan_changes import differ_from, plan_changes
from gristmill.figures.plan_picture import plan_picture, run_points
from gristmill.report.changes import plan_changes_page
from gristmill.report.plan import plan_page
from report_corpus import Made


def plan_of(made: Made, stricter: Path, steps: int | None = 40, from_step: int = 10, seed: int = 1) -> gm.Plan:
    sources = {"web": gm.open(made.root / "train"), "more": gm.open(stricter / "train")}
    phases = [gm.Phase(from_step, weights={"web": 0.25, "more": 0.75})]
    return gm.Plan(sources, seq_len=64, batch_size=4, weights={"web": 1, "more": 0}, steps=steps, seed=seed,
                   options=gm.PlanOptions(phases=phases))  # fmt: skip


def test_shares_between_points_are_those_of_the_phases(made: Made, stricter: Path) -> None:
    picture = plan_picture(plan_of(made, stricter), "plan.json")
    before = picture.points.index(10) + 1
    web, more = picture.sources
    assert web.shares[:before] == [1.0] * before and more.epochs[before - 1] == 0
    assert sum(more.shares[before:]) / len(more.shares[before:]) == pytest.approx(0.75, abs=0.05)
    assert picture.simulation is not None and picture.simulation.bytes > 0


def test_points_are_few_and_hold_the_ends_of_phases() -> None:
    assert run_points(10**9, [0, 12345])[-1] == 10**9 and 12345 in run_points(10**9, [0, 12345])
    assert len(run_points(10**9, [0])) == 48 and run_points(3, [0]) == [1, 2, 3]


def test_the_page_of_a_plan_tells_of_phases_epochs_and_bytes(made: Made, stricter: Path) -> None:
    shown = plan_page(plan_picture(plan_of(made, stricter), "plan.json"))
    for name in ("phases", "mix", "shuffle", "bytes", "options"):
        assert f'<section id="{name}">' in shown
    assert "web: 100.00% of the tokens up to step 10" in shown and "steps 10 to 40: seq_len 64" in shown


def test_an_endless_plan_is_shown_for_its_first_steps(made: Made, stricter: Path) -> None:
    assert "first 1,000 steps" in plan_page(plan_picture(plan_of(made, stricter, None), "plan.json"))


def test_plans_differ_from_the_step_at_which_their_phases_do(made: Made, stricter: Path) -> None:
    first = plan_of(made, stricter)
    assert differ_from(first, plan_of(made, stricter, from_step=20)) == 10
    assert differ_from(first, plan_of(made, stricter, seed=2)) == 0
    assert differ_from(first, plan_of(made, stricter, steps=60)) == 40
    assert differ_from(first, plan_of(made, stricter)) is None
    assert differ_from(plan_of(made, stricter, None), plan_of(made, stricter, None, 20)) == 10


def test_what_a_source_gains_is_what_forecasts_say(made: Made, stricter: Path) -> None:
    old, new = plan_of(made, stricter), plan_of(made, stricter, from_step=20)
    changes = plan_changes(old, new, "old.json", "new.json")
    gained = {gain.name: gain.tokens_after - gain.tokens_before for gain in changes.sources}
    assert gained["web"] == -gained["more"] and abs(gained["web"] - 10 * 4 * 64 * 3 // 4) <= 64  # a sample
    shown = plan_changes_page(changes)
    assert "differ from step 10 on" in shown and f"+{gained['web']:,}" in shown and f"−{gained['web']:,}" in shown
