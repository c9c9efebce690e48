"""The bytes of a store follow from recipe and inputs alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

PURE = (".bin", ".idx", ".sum", ".ids")


def content(root: Path) -> dict[str, object]:
    """Every file whose bytes are promised, and the rows of those whose rows are."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        if path.suffix in PURE or path.name in ("manifest.json", "tokenizer.json"):
            found[path.relative_to(root).as_posix()] = path.read_bytes()
        elif path.suffix == ".parquet":
            found[path.relative_to(root).as_posix()] = pq.read_table(path).to_pylist()
    return found


def test_two_runs_give_equal_bytes(make: Callable[..., Path], corpus: Path, whole_store: Path) -> None:
    again = make("again", corpus, tokenizer=whole_store.name, tokens_per_shard=1000, val_fraction=0)
    assert content(again) == content(whole_store) and len(content(again)) > 15


def test_neither_the_working_directory_nor_the_place_of_the_input_matters(
    make: Callable[..., Path], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = content(make("one", corpus, tokens_per_shard=1000, val_fraction=0.2))
    moved = tmp_path / "other" / "place"
    shutil.copytree(corpus, moved)
    monkeypatch.chdir(moved)
    assert content(make("two", ".", tokens_per_shard=1000, val_fraction=0.2)) == whole
    assert content(make("three", "../place/*.txt", tokens_per_shard=1000, val_fraction=0.2)) == whole


def test_the_manifest_holds_no_path_of_the_machine(make: Callable[..., Path], corpus: Path, tmp_path: Path) -> None:
    byte = make("byte", corpus)
    filed = make("filed", corpus, tokenizer=str(byte / "tokenizer.json"))
    for root in (byte, filed):
        assert str(tmp_path) not in (root / "manifest.json").read_text()
        assert str(tmp_path) not in str(pq.read_table(root / "inputs.parquet").to_pylist())


def test_inputs_are_listed_with_what_identifies_them(make: Callable[..., Path], corpus: Path) -> None:
    rows = pq.read_table(make("out", corpus) / "inputs.parquet").to_pylist()
    assert [row["path"] for row in rows] == [path.name for path in sorted(corpus.iterdir())]
    assert all(row["source"] == "web" and row["bytes"] and row["fingerprint"] for row in rows)


def test_times_and_the_host_are_beside_the_content(make: Callable[..., Path], corpus: Path) -> None:
    assert {"began", "seconds", "host"} <= set(json.loads((make("out", corpus) / "run.json").read_text()))
