"""Near duplicates of an earlier run's documents are found by the index that it saved."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.run import RunOptions


def prepared(root: Path, name: str, texts: dict[str, str], save: str | None = None, index: str | None = None) -> Path:
    raw = root / f"{name}.jsonl"
    raw.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()))
    dedup = [{"near": {"index": str(root / index) if index else None}}]
    recipe = Recipe(str(root / name), [SourceOptions(name, [str(raw)])], dedup=dedup, tokenizer="byte",
                    store=StoreOptions(val_fraction=0))  # type: ignore[arg-type]  # fmt: skip
    gm.prepare(recipe, options=RunOptions(save_index=str(root / save) if save else None))
    return root / name


def ids(store: Path) -> list[str]:
    opened = gm.open(store / "train")
    return [opened.document(i).id for i in range(opened.num_documents)]


def test_a_later_run_drops_what_an_earlier_one_has(tmp_path: Path) -> None:
    story = [" ".join(f"word{(i * 7 + k) % 997}" for i in range(300)) for k in (1, 400, 800)]
    first = prepared(tmp_path, "first", {"a": story[0], "b": story[1]}, save="index")
    assert ids(first) == ["a", "b"]
    texts = {"near a": story[0] + " more", "new": story[2], "near new": story[2] + " again"}
    second = prepared(tmp_path, "second", texts, save="index2", index="index")
    assert ids(second) == ["new"]
    dropped = {row["id"]: row["detail"] for row in pq.read_table(second / "dropped.parquet").to_pylist()}
    assert dropped == {"near a": "a", "near new": "new"}
    third = prepared(tmp_path, "third", {"x": story[0], "y": story[2], "z": "something else entirely"}, index="index2")
    assert ids(third) == ["z"]


def test_saving_an_index_needs_near_dedup(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    recipe = Recipe(str(tmp_path / "out"), [SourceOptions("a", [str(tmp_path / "a.txt")])], tokenizer="byte")
    with pytest.raises(gm.ConfigError, match="needs near dedup"):
        gm.prepare(recipe, options=RunOptions(save_index=str(tmp_path / "index")))
