"""Which names in a work folder are a run's own."""

from __future__ import annotations

import pytest

from gristmill.stages.work_folder import STEPS, is_work, is_work_of_store


@pytest.mark.parametrize("step", STEPS)
def test_files_of_a_step_are_named_by_number(step: str) -> None:
    for name in ("", "00100003.json", "00000000.parquet", "00000000-00012.parquet"):
        assert is_work(f"{step}/{name}") and is_work_of_store(f".work/{step}/{name}")
    for name in (f"{step}.parquet", "notes.txt", "0.json", "00000000.txt", "deeper/00000000.json", "0000000g.json"):
        assert not is_work(f"{step}/{name}"), name


def test_other_names_are_not() -> None:
    assert is_work("shards/train-00000.json") and is_work(f"evaluations-{'0' * 32}/00000000.json")
    for name in ("", "mine/", "mine/00000000.json", "shards/test-00000.json", "evaluations-0/", "spill/mine"):
        assert not is_work(name), name
    assert is_work_of_store(".work/") and not is_work_of_store("curate/00000000.json")
