"""A store is a sequence of its documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import random_documents, tiny_store


def test_documents_are_counted_iterated_and_indexed(text_store: gm.Store, texts: list[str]) -> None:
    assert text_store.num_shards > 1 and len(text_store) == text_store.num_documents == len(texts)
    assert [document.text for document in text_store] == texts
    assert [text_store[i].text for i in range(-len(texts), len(texts))] == texts * 2
    assert text_store[np.int64(1)].id == "t1"
    assert [document.id for document in text_store[1:]] == ["t1", "t2", "t3"]
    assert [document.id for document in text_store[::-2]] == ["t3", "t1"] and text_store[9:] == []


def test_a_document_that_is_not_there_is_an_index_error(text_store: gm.Store, texts: list[str]) -> None:
    for number in (len(texts), -len(texts) - 1):
        with pytest.raises(IndexError, match=f"There is no document {number} in Store"):
            text_store[number]


def test_truth_needs_no_documents(tmp_path: Path) -> None:
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    assert gm.open(tmp_path / "a.bin")
    with pytest.raises(gm.ConfigError, match="has no document boundaries"):
        len(gm.open(tmp_path / "a.bin"))


def test_reprs_are_one_line_and_read_no_tokens(text_store: gm.Store, tmp_path: Path) -> None:
    shown = repr(text_store)
    assert shown.startswith("Store(") and "4 documents in" in shown and "\n" not in shown
    assert repr(text_store[0]).startswith("Document('t0' of 'web': ")
    bare = tiny_store(tmp_path / "bare", random_documents(5), shards=1)
    assert "uint16 tokens in 1 shard)" in repr(bare) and "not counted yet" in bare._repr_html_()
    assert bare._scanned is None


def test_a_notebook_gets_an_escaped_table(tmp_path: Path) -> None:
    folder = tmp_path / "<script>&"
    shown = tiny_store(folder)._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;&amp;" in shown and "<table" in shown and "http" not in shown


def _stretches(store: gm.Store, columns: list[str] | None = None) -> list[list[str]]:
    """The ids that a store names for each stretch of its first shard."""
    count = int(store.shard_documents()[0])
    return [[name for table in store.names.tables(0, begin, end, columns) for name in table["id"].to_pylist()]
            for begin in range(count) for end in range(begin, count + 1)]  # fmt: skip


def test_a_stretch_of_documents_is_read_from_the_row_groups_that_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill.store.writer.ROW_GROUP", 3)
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": "d{i}", "text": "text {i}"}}\n' for i in range(8)))
    recipe = {"sources": [{"name": "web", "paths": str(tmp_path / "a.jsonl")}], "tokenizer": "byte"}
    layout = {"out": str(tmp_path / "s"), "store": {"val_fraction": 0}}
    gm.prepare({**recipe, **layout}, options={"workers": 1})
    store = gm.open(tmp_path / "s")
    assert [len(table) for table in store.names.tables(0, 0, 8)] == [3, 3, 2]
    ids = [document.id for document in store]
    assert _stretches(store) == [ids[begin:end] for begin in range(8) for end in range(begin, 9)]
    assert _stretches(store, ["url"]) == _stretches(store)
    assert next(store.names.tables(0, 4, 5, ["path", "url"])).column_names == ["id", "source", "path"]


def test_documents_without_names_are_numbered_in_any_stretch(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, random_documents(5), shards=1)
    ids = [f"part-0:{i}" for i in range(5)]
    assert _stretches(store) == [ids[begin:end] for begin in range(5) for end in range(begin, 6)]
