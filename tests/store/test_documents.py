"""A store is a sequence of its documents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import random_documents, tiny_store

TEXTS = ["Grist to the mill.", "An <|endoftext|> in a document stays text.", "äöü 日本語 🙂\n\n  two  blanks", "x"]


def made_with(tokenizer: str, folder: Path) -> gm.Store:
    """A store of TEXTS as they are, in their order."""
    (folder / "a.jsonl").write_text("".join(json.dumps({"id": f"t{i}", "text": t}) + "\n" for i, t in enumerate(TEXTS)))
    source = {"name": "web", "paths": str(folder / "a.jsonl")}
    layout = {"val_fraction": 0, "tokens_per_shard": 30}
    gm.prepare(
        {"out": str(folder / "s"), "sources": [source], "tokenizer": tokenizer, "clean": "none", "store": layout}
    )
    return gm.open(folder / "s")


@pytest.fixture(params=["byte", "gpt2"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> gm.Store:
    return made_with(request.param, tmp_path)


def test_documents_are_counted_iterated_and_indexed(store: gm.Store) -> None:
    assert store.num_shards > 1 and len(store) == store.num_documents == len(TEXTS)
    assert [document.text for document in store] == TEXTS
    assert [store[i].text for i in range(-len(TEXTS), len(TEXTS))] == TEXTS * 2
    assert store[np.int64(1)].id == "t1"
    assert [document.id for document in store[1:]] == ["t1", "t2", "t3"]
    assert [document.id for document in store[::-2]] == ["t3", "t1"] and store[9:] == []


def test_a_document_that_is_not_there_is_an_index_error(store: gm.Store) -> None:
    for number in (len(TEXTS), -len(TEXTS) - 1):
        with pytest.raises(IndexError, match=f"There is no document {number} in Store"):
            store[number]


def test_truth_needs_no_documents(tmp_path: Path) -> None:
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    assert gm.open(tmp_path / "a.bin")
    with pytest.raises(gm.ConfigError, match="has no document boundaries"):
        len(gm.open(tmp_path / "a.bin"))


def test_reprs_are_one_line_and_read_no_tokens(store: gm.Store, tmp_path: Path) -> None:
    shown = repr(store)
    assert shown.startswith("Store(") and "4 documents in" in shown and "\n" not in shown
    assert repr(store[0]).startswith("Document('t0' of 'web': ")
    bare = tiny_store(tmp_path / "bare", random_documents(5), shards=1)
    assert "uint16 tokens in 1 shard)" in repr(bare) and "not counted yet" in bare._repr_html_()
    assert bare._scanned is None


def test_a_notebook_gets_an_escaped_table(tmp_path: Path) -> None:
    folder = tmp_path / "<script>&"
    shown = tiny_store(folder)._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;&amp;" in shown and "<table" in shown and "http" not in shown
