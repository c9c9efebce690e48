"""docs/report.md, followed as a reader would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from page_script import PATH, script


def test_the_page_runs_as_it_stands_and_makes_the_pages_it_speaks_of(tmp_path: Path) -> None:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script("report.md")], cwd=tmp_path, text=True,
                          capture_output=True, env={**os.environ, "PATH": PATH}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "data/mills/report.html" in done.stdout
    for name in ("data/mills/report.html", "mills.html", "first.html", "changes.html", "plans.html"):
        assert (tmp_path / name).read_text().startswith("<!doctype html>"), name
    assert not (tmp_path / "data/mills-all/report.html").exists()
    assert "differ from step 40 on" in (tmp_path / "plans.html").read_text()
