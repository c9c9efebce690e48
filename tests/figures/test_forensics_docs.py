"""The page on forensics, followed as a reader would: its blocks run one after the other, and find what it says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq

from page_script import PATH, script


def test_the_page_on_forensics_runs_as_it_stands(tmp_path: Path) -> None:
    place = {**os.environ, "PATH": PATH}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script("forensics.md")], cwd=tmp_path, env=place,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("documents behind them, the most suspicious first")[1:][:2] or ("", "")
    assert first.splitlines()[2].split()[:2] == ["1", "noise"]
    assert json.loads((tmp_path / "now.json").read_text())["step"] == 299
    steps = {row["id"]: row for row in pq.read_table(tmp_path / "steps.parquet").to_pylist()}
    assert set(steps) == {"noise", "topic-7"} and steps["noise"]["last_step"] < 200
    assert (tmp_path / "ledger.html").stat().st_size > 1000 and second != first
