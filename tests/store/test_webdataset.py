"""Stores as WebDataset tars, read back by the real webdataset package and by our own streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.store import webdataset as exporting


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of 40 documents, made by the byte tokenizer."""
    rows = [f'{{"id": "d{i}", "text": "Text {i}: Grüße, <{"x" * i}>", "url": "u{i}"}}\n' for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    gm.prepare({"out": str(tmp_path / "store"), "tokenizer": "byte", "store": {"val_fraction": 0.2},
                "sources": [{"name": "web", "paths": [str(tmp_path / "a.jsonl")], "fields": ["url"]}]})  # fmt: skip
    return tmp_path / "store"


def theirs(folder: Path, split: str) -> list[dict[str, Any]]:
    paths = [str(path) for path in sorted(folder.glob(f"{split}-*.tar"))]
    return list(webdataset.WebDataset(paths, shardshuffle=False).decode())


def test_documents_are_texts_with_what_is_known_of_them(tmp_path: Path, store: Path) -> None:
    report = gm.export(store, "webdataset", tmp_path / "out")
    for split in ("train", "val"):
        documents, found = list(gm.open(store / split)), theirs(tmp_path / "out", split)
        assert [sample["txt"] for sample in found] == [document.text for document in documents]
        assert [sample["json"]["id"] for sample in found] == [document.id for document in documents]
        assert all(sample["json"]["url"] == f"u{sample['json']['id'][1:]}" for sample in found)
    assert report.copied == ["train-000000.tar", "val-000000.tar"]
    assert any("train-000000.tar" in note and "WebDataset" in note for note in report.notes)


def test_sequences_are_arrays_of_tokens_and_the_rest_is_told(tmp_path: Path, store: Path) -> None:
    report = gm.export(store, "webdataset", tmp_path / "out", seq_len=50)
    tokens, found = gm.open(store / "train"), theirs(tmp_path / "out", "train")
    assert np.array_equal(np.concatenate([sample["npy"] for sample in found]), tokens.tokens(0, 50 * len(found)))
    assert len(found) == tokens.num_tokens // 50 and found[0]["npy"].dtype == tokens.dtype
    assert any("fill no sample of 50" in note for note in report.notes)


def test_many_tars_are_told_as_one_pattern(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_SIZE", 10_000)
    report = gm.export(store / "train", "webdataset", tmp_path / "out")
    last = len(report.copied) - 1
    assert last > 1 and f"train-{{000000..{last:06d}}}.tar" in report.notes[0]
    assert len(theirs(tmp_path / "out", "train")) == gm.open(store / "train").num_documents


def test_a_stream_of_the_export_has_the_tokens_of_the_store(tmp_path: Path, store: Path) -> None:
    gm.export(store / "train", "webdataset", tmp_path / "out")
    stream = gm.stream(f"{tmp_path}/out/*.tar").tokenize("byte").chunk(32).batch(1, shuffle=False, epochs=1)
    rows = [
        batch["input_ids"][0][: int(batch["attention_mask"][0].sum())] for batch in stream.loader(keys="attention_mask")
    ]
    whole = gm.open(store / "train")
    assert np.array_equal(np.concatenate(rows), whole.tokens(0, whole.num_tokens))


def test_a_store_that_cannot_be_decoded_is_refused_before_anything_is_written(tmp_path: Path, store: Path) -> None:
    (store / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"no tokenizer.json"):
        gm.export(store, "webdataset", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert gm.export(store, "webdataset", tmp_path / "out", seq_len=20).copied
