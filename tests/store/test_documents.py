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
