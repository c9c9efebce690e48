"""Documents that hold an evaluation's text are dropped with the item and the words; files count by their content."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.recipe import Recipe, SourceOptions, StoreOptions

QUESTION = "How many of the nineteen old ships that left the harbour in winter came back before summer?"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    texts = {
        "clean": "Ships leave harbours and come back.",
        "dirty": f"Somebody asked: {QUESTION.upper()} Nobody knew.",
    }
    path = tmp_path / "raw.jsonl"
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()))
    return path


def prepared(out: Path, raw: Path, evaluations: Path, **options: object) -> gm.Recipe:
    recipe = Recipe(str(out), [SourceOptions("web", [str(raw)])], tokenizer="byte", store=StoreOptions(val_fraction=0),
                    decontaminate={"paths": [str(evaluations)]}, **options)  # type: ignore[arg-type]  # fmt: skip
    gm.prepare(recipe)
    return recipe


def test_an_evaluations_item_is_found_and_named(tmp_path: Path, raw: Path) -> None:
    (tmp_path / "evals").mkdir()
    rows = [{"question": "Too short."}, {"question": QUESTION, "answers": ["three", "four"]}]
    (tmp_path / "evals" / "ships.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepared(tmp_path / "out", raw, tmp_path / "evals")
    assert [gm.open(tmp_path / "out" / "train").document(i).id for i in range(1)] == ["clean"]
    (dropped,) = pq.read_table(tmp_path / "out" / "dropped.parquet").to_pylist()
    assert (dropped["id"], dropped["rule"], dropped["reason"]) == ("dirty", "decontaminate", "contaminated")
    assert dropped["detail"].startswith("ships.jsonl:2: HOW MANY OF THE NINETEEN OLD SHIPS")


def test_the_manifest_names_evaluations_by_content_and_no_folder(tmp_path: Path, raw: Path) -> None:
    manifests = []
    for place in ("here", "there"):
        folder = tmp_path / place
        folder.mkdir()
        (folder / "ships.txt").write_text(QUESTION)
        (folder / "words.txt").write_text("harbour\n")
        filters = [{"profanity": {"words": str(folder / "words.txt"), "max_ratio": 0.9}}]
        prepared(tmp_path / f"out-{place}", raw, folder / "ships.txt", filters=filters)
        manifests.append((tmp_path / f"out-{place}" / "manifest.json").read_text())
    assert manifests[0] == manifests[1] and str(tmp_path) not in manifests[0] and "ships.txt" in manifests[0]


def test_a_changed_evaluation_is_noticed(tmp_path: Path, raw: Path) -> None:
    (tmp_path / "ships.txt").write_text(QUESTION)
    prepared(tmp_path / "one", raw, tmp_path / "ships.txt")
    (tmp_path / "ships.txt").write_text("An entirely different evaluation of words that are in no document at all.")
    prepared(tmp_path / "two", raw, tmp_path / "ships.txt")
    assert [gm.open(tmp_path / name / "train").num_documents for name in ("one", "two")] == [1, 2]
