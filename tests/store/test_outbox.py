"""The folder of an export: every file is named before it appears, the last says that all are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.places.folders import UNFINISHED, read_claim
from gristmill.store.outbox import EXPORTED, Outbox

ABOUT = {"command": "export --to npy", "store": "0f"}


def fill(folder: Path, names: list[str], about: dict[str, str] = ABOUT, overwrite: bool = False) -> Outbox:
    out = Outbox(folder, about)
    with out.filling(overwrite):
        for name in names:
            with out.write(name) as file:
                claim = read_claim(folder)
                assert claim is not None and name in claim.names
                file.write(name.encode())
    return out


def test_a_finished_export_lists_its_files(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_bytes(b"tokens")
    out = Outbox(tmp_path / "out", ABOUT)
    with out.filling(False):
        out.link(tmp_path / "tokens", "a.bin")
        with out.write("b.csv") as file:
            file.write(b"1,2")
        assert not (tmp_path / "out" / EXPORTED).exists()
    listed = json.loads((tmp_path / "out" / EXPORTED).read_text())
    assert listed["files"] == ["a.bin", "b.csv"] and listed["store"] == "0f"
    assert (out.linked, out.copied) == (["a.bin"], ["b.csv"]) and (tmp_path / "out/a.bin").read_bytes() == b"tokens"
    assert not (tmp_path / "out" / UNFINISHED).exists()


def test_another_export_replaces_the_files_of_the_last_only_by_word(tmp_path: Path) -> None:
    fill(tmp_path / "out", ["a", "b"])
    with pytest.raises(ConfigError, match="already holds an export"):
        fill(tmp_path / "out", ["c"])
    fill(tmp_path / "out", ["c"], overwrite=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.name[0] != ".") == ["c", EXPORTED]


def test_one_that_was_cut_short_is_finished_by_the_same_command_alone(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Outbox(tmp_path / "out", ABOUT).filling(False):
        raise KeyboardInterrupt
    with pytest.raises(ConfigError, match="holds an unfinished export --to npy"):
        fill(tmp_path / "out", ["a"], about={**ABOUT, "store": "1f"})
    assert fill(tmp_path / "out", ["a"]).copied == ["a"]


def test_files_of_others_are_never_touched(tmp_path: Path) -> None:
    fill(tmp_path / "out", ["a"])
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(ConfigError, match="mine is no part of an export"):
        fill(tmp_path / "out", ["a"], overwrite=True)
    assert (tmp_path / "out" / "mine").read_text() == "mine"
