"""Folders of raw uint32 shards, as training scripts make them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError, StoreError
from gristmill.store.export import export_store
from gristmill.store.opening import open_store

Make = Callable[..., Path]
EOS = 50256


def scripted(root: Path, train: list[list[int]], val: list[list[int]]) -> Path:
    """What such a script leaves: shards numbered on from train into val, metadata, the tokenizer's kind."""
    for number, (split, ids) in enumerate([*(("train", ids) for ids in train), *(("val", ids) for ids in val)]):
        (root / split).mkdir(parents=True, exist_ok=True)
        np.array(ids, np.uint32).tofile(root / split / f"shard_{number:05d}.bin")
    counts = {"train_shards": len(train), "val_shards": len(val), "total_shards": len(train) + len(val)}
    (root / "dataset_metadata.json").write_text(json.dumps({**counts, "tokenization": "gpt2", "vocab_size": 50304}))
    (root / "tokenizer_state.json").write_text(json.dumps({"token_kind": "gpt2", "chars": None}))
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return scripted(tmp_path / "data", [[1, 2, 3], [70_000, 5]], [[6, 7]])


def tokens(path: Any, **options: Any) -> list[int]:
    store = open_store(path, **options)
    return store.tokens(0, store.num_tokens).tolist()  # type: ignore[no-any-return]


def test_a_folder_opens_in_place_as_its_train_split(folder: Path) -> None:
    assert tokens(folder) == tokens(folder / "train") == [1, 2, 3, 70_000, 5]
    assert tokens(folder / "val") == [6, 7]


def test_a_plan_over_it_is_written_and_read_again(folder: Path, tmp_path: Path) -> None:
    for split, expected in (("train", [1, 2, 3, 70_000]), ("val", [6, 7])):
        gm.Plan({"data": gm.open(folder / split)}, seq_len=2, batch_size=1, seed=0).save(tmp_path / "plan.json")
        plan = gm.load_plan(tmp_path / "plan.json")
        assert sorted(t for b in gm.Loader(plan, threads=0) for t in b["input_ids"].ravel()) == sorted(expected)


def test_shards_come_in_the_order_of_their_numbers(folder: Path) -> None:
    np.array([9], np.uint32).tofile(folder / "train" / "shard_100000.bin")
    np.array([8], np.uint32).tofile(folder / "train" / "shard_99999.bin")
    assert tokens(folder)[-2:] == [8, 9]


def test_documents_need_an_eos_which_the_caller_may_know(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--eos"):
        _ = open_store(folder).num_documents
    assert open_store(folder, eos=3).num_documents == 2


def test_the_dtype_is_uint32_and_no_other(folder: Path) -> None:
    assert tokens(folder, dtype="uint32") == tokens(folder)
    with pytest.raises(ConfigError, match="are uint32, not uint16"):
        open_store(folder, dtype="uint16")


def test_what_is_no_shard_is_not_passed_over_in_silence(folder: Path) -> None:
    (folder / "train" / "shard_00000_mask.bin").write_bytes(bytes(3))
    with pytest.raises(ConfigError, match=r"shard_00000_mask\.bin is no shard"):
        open_store(folder)


def test_a_missing_shard_is_named_by_the_count(folder: Path) -> None:
    (folder / "train" / "shard_00001.bin").unlink()
    with pytest.raises(StoreError, match=r"holds 1 shards, and dataset_metadata\.json counts 2"):
        open_store(folder)


def test_shards_that_were_added_are_read_too(folder: Path) -> None:
    np.array([8], np.uint32).tofile(folder / "train" / "shard_00007.bin")
    assert tokens(folder)[-1] == 8


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", "[" * 100_000])
def test_damaged_metadata_is_a_sentence(folder: Path, text: str) -> None:
    (folder / "dataset_metadata.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError, match=r"dataset_metadata\.json"):
        open_store(folder)


def test_a_shard_that_is_cut_off_or_empty_is_a_sentence(folder: Path) -> None:
    for data, said in ((b"", "is empty"), (bytes(6), "no multiple of 4")):
        (folder / "train" / "shard_00001.bin").write_bytes(data)
        with pytest.raises(StoreError, match=said):
            open_store(folder)


def test_metadata_of_something_else_is_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "dataset_metadata.json").write_text("{}")
    with pytest.raises(ConfigError, match="neither of train and val"):
        open_store(tmp_path)


@pytest.mark.parametrize(("vocab", "linked"), [(50_257, False), (100_000, True)])
def test_an_export_opens_as_the_same_documents(tmp_path: Path, make_store: Make, vocab: int, linked: bool) -> None:
    root = make_store(tmp_path / "s", vocab=vocab, val=[[1, 2], [3]], tokens_per_shard=500)
    report = export_store(root, "sharded-bin", tmp_path / "out")
    for split in ("train", "val"):
        own, found = open_store(root / split), open_store(tmp_path / "out" / split)
        assert found.dtype == np.uint32 and found.eos == own.eos and found.num_shards == own.num_shards
        assert tokens(tmp_path / "out" / split) == tokens(root / split)
        assert found.num_documents == own.num_documents
    assert ("train/shard_00001.bin" in report.linked) is linked and not (linked and len(report.copied) > 2)


def test_an_export_says_what_scripts_look_up(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [[1, 2], [3]], tokenizer="gpt2")
    export_store(root, "sharded-bin", tmp_path / "out")
    said = json.loads((tmp_path / "out" / "dataset_metadata.json").read_text())
    assert (said["total_tokens"], said["train_shards"], said["val_shards"]) == (5, 1, 0)
    assert (said["tokenization"], said["vocab_size"], said["eos"]) == ("gpt2", 50_257, EOS)
    assert json.loads((tmp_path / "out" / "tokenizer_state.json").read_text())["token_kind"] == "gpt2"
    raw = np.memmap(tmp_path / "out" / "train" / "shard_00000.bin", dtype=np.uint32, mode="r")
    assert raw.tolist() == [1, 2, EOS, 3, EOS]


def test_a_compressed_store_is_exported_as_plain_shards(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", vocab=100_000, compression="zstd")
    assert "train/shard_00000.bin" in export_store(root, "sharded-bin", tmp_path / "out").copied
    assert tokens(tmp_path / "out") == tokens(root)


def test_a_split_that_was_not_made_is_empty(tmp_path: Path, make_store: Make) -> None:
    export_store(make_store(tmp_path / "s"), "sharded-bin", tmp_path / "out")
    assert not (tmp_path / "out" / "val").exists() and open_store(tmp_path / "out" / "val").num_tokens == 0
