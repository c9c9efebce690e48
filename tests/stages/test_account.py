"""Every document that came in is in the store or in the account, with its reason."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.cli import main
from gristmill.curate.dedup.lines import Lines
from gristmill.recipe import Recipe, SourceOptions, StoreOptions

Run = Callable[..., Path]


@pytest.fixture
def store(run: Run) -> Path:
    return run("out", run={"keep_dropped": True})


def funnel(root: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((root / "funnel.json").read_text())
    assert rows == json.loads((root / "manifest.json").read_text())["funnel"]
    return rows


def kept_ids(root: Path) -> set[str]:
    stores = [gm.open(root / split) for split in ("train", "val")]
    return {store.document(i).id for store in stores for i in range(store.num_documents)}


def test_what_goes_into_a_step_is_what_the_step_before_left(store: Path) -> None:
    for source in "012345":
        rows = [row for row in funnel(store) if row["source"] == source and "documents_in" in row]
        assert len(rows) > 7
        for before, after in itertools.pairwise(rows):
            for unit in ("documents", "bytes", "tokens"):
                assert after[f"{unit}_in"] == before[unit], (after["stage"], unit)
        for row in rows[1:]:
            assert row["documents_in"] - row["documents"] == sum(row["reasons"].values()), row["stage"]


def test_splits_add_up_to_what_the_last_step_left(store: Path) -> None:
    rows = funnel(store)
    for source in "012345":
        last = [row for row in rows if row["source"] == source and "documents_in" in row][-1]
        ends = [row for row in rows if row["source"] == source and row["stage"] in ("train", "val")]
        for unit in ("documents", "bytes", "tokens"):
            assert sum(row[unit] for row in ends) == last[unit]


def test_each_document_is_in_the_store_or_among_the_dropped(store: Path, corpus: Path) -> None:
    given = {json.loads(line)["id"] for path in corpus.glob("*.jsonl") for line in path.read_text().splitlines()}
    dropped = pq.read_table(store / "dropped.parquet").to_pylist()
    assert kept_ids(store) | {row["id"] for row in dropped} == given
    assert len(kept_ids(store)) + len(dropped) == len(given)
    reasons = Counter((row["rule"], row["reason"]) for row in dropped)
    counted = Counter({(row["stage"], reason): 0 for row in funnel(store) for reason in row.get("reasons", {})})
    for row in funnel(store):
        for reason, count in row.get("reasons", {}).items():
            counted[row["stage"], reason] += count
    assert reasons == counted
    assert {"length", "exact", "near"} <= {rule for rule, _ in reasons}


def test_a_duplicate_names_the_one_that_stayed_and_how_near_it_is(store: Path) -> None:
    rows = pq.read_table(store / "dropped.parquet").to_pylist()
    near = [row for row in rows if row["rule"] == "near"]
    exact = [row for row in rows if row["rule"] == "exact"]
    assert all(row["detail"] in kept_ids(store) and row["value"] >= 0.8 for row in near)
    assert all(row["detail"] and row["value"] is None for row in exact)


def test_the_evidence_of_duplicates_stands_by_itself(store: Path) -> None:
    rows = pq.read_table(store / "duplicates.parquet").to_pylist()
    dropped = {row["id"]: row for row in pq.read_table(store / "dropped.parquet").to_pylist()}
    assert {row["rule"] for row in rows} == {"exact", "near"}
    for row in rows:
        assert row["kept_id"] == dropped[row["id"]]["detail"] and row["similarity"] == dropped[row["id"]]["value"]
    assert len(rows) == sum(row["rule"] in ("exact", "near") for row in dropped.values())


def test_texts_of_dropped_documents_are_kept_only_when_asked_for(store: Path, run: Run) -> None:
    rows = pq.read_table(store / "dropped.parquet").to_pylist()
    assert any(row["text"].startswith("too short") for row in rows)
    assert "text" not in pq.read_schema(run("other") / "dropped.parquet").names


def test_tokens_of_dropped_documents_are_counted(store: Path) -> None:
    """With the byte tokenizer a document's tokens are its bytes and an EOS."""
    for row in funnel(store):
        if row["stage"] in ("gopher_repetition", "exact", "near"):
            gone = row["documents_in"] - row["documents"]
            assert row["tokens_in"] - row["tokens"] == row["bytes_in"] - row["bytes"] + gone


class Notes:
    """A progress that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def start(self, what: str, total: int, unit: str = "bytes") -> None: ...
    def advance(self, amount: int) -> None: ...
    def note(self, text: str) -> None:
        self.notes.append(text)


def test_rules_that_never_fire_or_drop_most_are_reported(tmp_path: Path, corpus: Path) -> None:
    notes = Notes()
    source = {"name": "all", "paths": [str(corpus)]}
    filters = [{"length": {"min_chars": 0, "max_chars": 1000}}, {"profanity": {"max_ratio": 1.0}}]
    gm.prepare(Recipe(str(tmp_path / "out"), [source], filters=filters, tokenizer="byte"), progress=notes)  # type: ignore[list-item]
    assert any("'profanity' never fired on" in note for note in notes.notes)
    assert any("'length' dropped" in note for note in notes.notes)


def test_rules_of_one_name_have_rows_notes_and_reasons_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"short": "a", "long": "b" * 90, **{f"fits-{i}": "c" * (20 + i) for i in range(4)}}
    rows = (json.dumps({"id": id, "text": text}) + "\n" for id, text in texts.items())
    (tmp_path / "raw.jsonl").write_text("".join(rows))
    lengths = [{"min_chars": 10}, {"min_chars": 0, "max_chars": 50}, {"min_chars": 0, "max_chars": 60}]
    recipe = {"out": str(tmp_path / "out"), "sources": [{"name": "all", "paths": [str(tmp_path / "raw.jsonl")]}],
              "filters": [{"length": each} for each in lengths], "tokenizer": "byte"}  # fmt: skip
    notes = Notes()
    gm.prepare(recipe, progress=notes, options={"workers": 1})
    found = {row["stage"]: row for row in funnel(tmp_path / "out")}
    counts = {name: (found[name]["documents_in"], found[name]["documents"], found[name]["reasons"])
              for name in ("length", "length-2", "length-3")}  # fmt: skip
    assert counts == {"length": (6, 5, {"too_few_chars": 1}), "length-2": (5, 4, {"too_many_chars": 1}),
                      "length-3": (4, 4, {})}  # fmt: skip
    gone = pq.read_table(tmp_path / "out/dropped.parquet", columns=["id", "rule"]).to_pylist()
    assert gone == [{"id": "short", "rule": "length"}, {"id": "long", "rule": "length-2"}]
    assert "The rule 'length-3' never fired on 4 documents." in notes.notes
    assert not any("'length'" in note or "'length-2'" in note for note in notes.notes)
    assert main(["dropped", str(tmp_path / "out"), "--rule", "length-2"]) == 0
    assert "length-2, too_many_chars: 1 of 1" in capsys.readouterr().out


def test_inspect_tells_a_documents_way(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pq.read_table(store / "dropped.parquet").to_pylist()
    near = next(row for row in rows if row["rule"] == "near")
    assert main(["inspect", str(store), "--doc", near["id"]]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("near_duplicate", near["detail"], str(near["value"]), near["path"]))
    kept = min(kept_ids(store))
    assert main(["inspect", str(store), "--doc", kept, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert {"row", "path", "edits", "start", "end", "url"} <= set(found)


def test_edits_name_the_steps_that_changed_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a", "text": "one\r\n" + "two\n" * 3}) + "\n"
                                      + json.dumps({"id": "b", "text": "three"}) + "\n")  # fmt: skip
    recipe = Recipe(str(tmp_path / "out"), [SourceOptions("web", [str(tmp_path / "a.jsonl")])], tokenizer="byte",
                    dedup=[Lines(min_chars=3)], store=StoreOptions(val_fraction=0))  # fmt: skip
    gm.prepare(recipe)
    opened = gm.open(tmp_path / "out" / "train")
    assert [opened.document(i).record["edits"] for i in range(2)] == ["clean,lines", ""]
    assert opened.document(0).text == "one\ntwo"
