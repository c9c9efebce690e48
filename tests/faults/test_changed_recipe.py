"""Runs of different recipes that are cut short in one folder never lend each other their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.places.local import Local
from gristmill.store.verify import verify

Make = Callable[..., gm.Recipe]
DEDUP: Any = ["exact", {"near": {"ngram": 1}}]


class Cut(Exception):
    """A run's sudden end."""


def recipes(folder: Path) -> Make:
    """`recipes(folder)("out", tokenizer=...)`: a recipe over 60 documents in two sources."""
    for name in ("a", "b"):
        rows = [
            {"id": f"{name}{i}", "text": f"Text {i // 2} of a file. " * 9 + "Again." * (i % 4 == 3)} for i in range(30)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources: Any = [{"name": name, "paths": [str(folder / f"{name}.jsonl")]} for name in ("a", "b")]
    store: Any = {"tokens_per_shard": 1000, "val_fraction": 0.1}
    return lambda out, **options: gm.Recipe(str(folder / out), sources, store=store, **options)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make("out", tokenizer=...)`: a recipe in a folder of its own."""
    return recipes(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run that was left alone makes of near duplicates."""
    folder = tmp_path_factory.mktemp("whole")
    gm.prepare(recipes(folder)("whole", tokenizer="byte", dedup=DEDUP, seed=1))
    return content(folder / "whole")


def content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.*")
            if path.suffix in (".bin", ".idx", ".sum", ".ids", ".json") and path.name != "run.json"}  # fmt: skip


def cut_before(monkeypatch: pytest.MonkeyPatch, is_marker: Callable[[Path], bool]) -> None:
    """End the run when a job has written its files, but its marker does not say so yet."""
    original = Local.write

    def cutting(place: Local, data: bytes | str) -> None:
        if is_marker(Path(place.path)):
            raise Cut
        original(place, data)

    monkeypatch.setattr(Local, "write", cutting)


@pytest.mark.parametrize("stage", ["curate", "tokens", "shards"])
def test_a_finished_job_whose_files_another_recipe_replaced_is_done_again(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    kept = gm.RunOptions(work=str(tmp_path / "work"))
    gm.prepare(make("whole", tokenizer="byte"))
    gm.prepare(make("out", tokenizer="byte"), options=kept)
    other = make("out", tokenizer="byte", clean={"unicode": "nfkc"}, filters=[{"length": {"min_chars": 165}}])
    cut_before(monkeypatch, lambda path: path.parent.name == stage)
    with pytest.raises(Cut):
        gm.prepare(other, overwrite=True, options=kept)
    monkeypatch.undo()
    gm.prepare(make("out", tokenizer="byte"), options=kept)
    assert content(tmp_path / "out") == content(tmp_path / "whole") and not verify(tmp_path / "out").faults


def test_shards_that_another_run_wrote_are_not_taken_for_those_of_kept_work(make: Make, tmp_path: Path) -> None:
    kept = gm.RunOptions(work=str(tmp_path / "work"))
    first = make("out", tokenizer="byte")
    gm.prepare(first, options=kept)
    before = content(tmp_path / "out")
    gm.prepare(make("out", tokenizer="byte", shuffle=True), overwrite=True)
    assert content(tmp_path / "out") != before
    gm.prepare(first, overwrite=True, options=kept)
    assert content(tmp_path / "out") == before and not verify(tmp_path / "out").faults


@pytest.mark.parametrize("step", [
    "id", "exact", "sign", "members", "crowded", "pairs", "candidates", "wanted", "sets", "edges", "resolved", "near",
    "plan", "evidence", "account",
])  # fmt: skip
def test_a_wide_step_whose_result_another_recipe_replaced_is_done_again(
    make: Make, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    kept = gm.RunOptions(work=str(tmp_path / "work"))
    gm.prepare(make("out", tokenizer="byte", dedup=DEDUP), options=kept)
    cut_before(monkeypatch, lambda path: path.parent.name == step)
    with pytest.raises(Cut):
        gm.prepare(make("out", tokenizer="byte", dedup=DEDUP, filters=[{"length": {"min_chars": 165}}]),
                   overwrite=True, options=kept)  # fmt: skip
    monkeypatch.undo()
    # Another seed splits anew what the first recipe curated, so that its results are read again.
    gm.prepare(make("out", tokenizer="byte", dedup=DEDUP, seed=1), options=kept)
    assert content(tmp_path / "out") == whole
