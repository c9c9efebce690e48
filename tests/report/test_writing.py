from __future__ import annotations

from pathlib import Path

import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.report.writing import report, target
from report_corpus import Made


def test_a_report_lies_beside_what_it_shows(made: Made, tmp_path: Path) -> None:
    gm.Plan({"web": gm.open(made.root / "train")}, seq_len=8, batch_size=1, steps=1).save(tmp_path / "run.json")
    assert target(made.root) == target(made.root / "manifest.json") == made.root / "report.html"
    assert target(tmp_path / "run.json") == tmp_path / "run.report.html"


def test_a_store_and_a_plan_are_not_compared(made: Made, tmp_path: Path) -> None:
    gm.Plan({"web": gm.open(made.root / "train")}, seq_len=8, batch_size=1, steps=1).save(tmp_path / "plan.json")
    with pytest.raises(ConfigError, match="two stores or two plans"):
        report(tmp_path / "plan.json", made.root)


def test_a_folder_without_a_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no manifest\.json"):
        report(tmp_path)
