"""A record that is read while it is written, or that is none. What is in one: tests/loader/test_record.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import gristmill as gm
from gristmill.figures import served
from gristmill.figures.served import as_run
from gristmill.loader.record import Part, Record, parts_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kept = Record(tmp_path / "served.parquet")
    for step in range(3):
        kept.served(step, 8, 0.0)
        kept.close()
    return tmp_path / "served.parquet"


def test_a_file_that_has_just_been_merged_is_looked_for_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, looks = Part(0, 7, 7), list[int]()

    def listed(record: Path) -> list[Part]:
        looks.append(1)
        return [*parts_of(record), gone] if len(looks) < 3 else parts_of(record)

    run = as_run(folder)
    monkeypatch.setattr(served, "parts_of", listed)
    assert run.served().step.tolist() == [0, 1, 2] and len(looks) == 3


def test_a_damaged_file_is_named(folder: Path) -> None:
    path = folder / Part(0, 1, 1).name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(gm.StoreError, match=f"{path.name} is damaged"):
        as_run(folder).served()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "served.parquet").mkdir()
    for path in (tmp_path, tmp_path / "served.parquet", tmp_path / "nothing"):
        with pytest.raises(gm.ConfigError, match="holds no record of a run"):
            as_run(path)
