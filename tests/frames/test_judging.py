"""Rows judged where they lie: each comes back once, in its place, with what a run over files would say of it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import SourceError
from gristmill.frames.judging import Judge
from gristmill.frames.recipe import narrow_recipe
from gristmill.run import prepare

RULES: dict[str, Any] = {"filters": [{"length": {"min_chars": 12}}, {"gopher_repetition": {}}], "dedup": None}
TEXTS = ["short", "A text that is long enough to stay.", "", "spam spam spam " * 40, "Ein  Text\r\nmit\u00a0Zeichen."]


def judged(rows: dict[str, Any], recipe: dict[str, Any], **columns: str) -> list[dict[str, Any]]:
    judge = pickle.loads(pickle.dumps(Judge.of(narrow_recipe(recipe, columns.get("text"), columns.get("id")))))
    return [row for batch in judge([pa.record_batch(rows)]) for row in batch.to_pylist()]


def test_every_row_comes_back_in_its_place_with_all_its_columns() -> None:
    rows = {"n": list(range(len(TEXTS))), "body": TEXTS}
    found = judged(rows, RULES, text="body")
    assert [row["n"] for row in found] == rows["n"]
    assert [row["rule"] for row in found] == ["length", None, "length", "gopher_repetition", None]
    assert found[0]["reason"] == "too_few_chars" and found[0]["value"] == 5


def test_decisions_and_texts_are_those_of_a_run(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [f"d{i}" for i in range(len(TEXTS))], "text": TEXTS}), tmp_path / "rows.parquet")
    sources = [{"name": "rows", "paths": [str(tmp_path / "rows.parquet")]}]
    out = tmp_path / "out"
    prepare({**RULES, "out": str(out), "sources": sources, "tokenizer": "byte"}, progress=False)
    dropped = {row["id"]: (row["rule"], row["reason"], row["value"], row["detail"])
               for row in pq.read_table(out / "dropped.parquet").to_pylist()}  # fmt: skip
    found = judged({"id": [f"d{i}" for i in range(len(TEXTS))], "text": TEXTS}, RULES, id="id")
    ours = {row["id"]: (row["rule"], row["reason"], row["value"], row["detail"]) for row in found if row["rule"]}
    assert ours == dropped


def test_a_row_without_text_ends_it_by_name_or_is_set_apart() -> None:
    rows = {"key": ["a", "b", "c"], "text": pa.array(["A text that is long enough.", None, "tiny"])}
    with pytest.raises(SourceError, match=r"\(id 'b'\) has no text under 'text' but null"):
        judged(rows, RULES, id="key")
    found = judged(rows, {**RULES, "on_error": "skip"}, id="key")
    assert [row["rule"] for row in found] == [None, "unreadable", "length"]
    assert "'b'" in found[1]["detail"] and found[1]["text"] is None


def test_bytes_that_are_no_utf8_are_set_apart() -> None:
    bad = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"ok\xff\xfe"))
    judge = Judge.of(narrow_recipe({"on_error": "skip"}, None, None))
    (found,) = judge([pa.record_batch({"text": bad})])
    assert found.column("rule").to_pylist() == [None, "unreadable"]


def test_fields_that_rules_read_are_columns() -> None:
    recipe = {"sources": [{"name": "web", "fields": ["url"]}], "filters": [{"url": {"domains": ["bad.example"]}}]}
    rows = {"url": ["http://bad.example/x", "http://good.example/"], "text": ["a text", "a text"]}
    assert [row["rule"] for row in judged(rows, recipe)] == ["url", None]


def test_large_batches_are_cut_by_bytes_and_come_in_the_type_that_they_had() -> None:
    judge = Judge.of(narrow_recipe({"clean": None}, None, None))
    rows = pa.record_batch({"text": pa.array(["x" * (3 << 20)] * 6, pa.large_string())})
    found = list(judge([rows]))
    assert len(found) == 3 and all(batch.schema.field("text").type == pa.large_string() for batch in found)
    assert sum(map(len, found)) == 6
