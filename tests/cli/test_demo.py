"""The demo, to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gristmill as gm

Command = Callable[..., Any]


def test_the_demo_runs_to_its_end_and_leaves_whole_stores(gristmill: Command, call: Command, tmp_path: Path) -> None:
    ran = gristmill("demo", "--out", tmp_path / "demo")
    for number in range(1, 6):
        assert f"\n{number}. " in ran.out
    assert (
        "tokens on 2 ranks equal those of 1" in " ".join(ran.out.split())
        and f"The stores are in {tmp_path}/demo" in ran.out
    )
    for name in ("code", "prose"):
        call("verify", tmp_path / "demo" / name)
    killed = json.loads((tmp_path / "demo" / "checkpoint.json").read_text())
    assert 20 <= killed["step"] < gm.load_plan(tmp_path / "demo" / "plan.json").total_steps
