"""Tokens are compared with their sums when they are first read, and only then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.errors import StoreError
from gristmill.store.blocks import BLOCK
from gristmill.store.table import ShardTable
from gristmill.testing import tiny_store

Make = Callable[..., Path]
DOCUMENTS = [[(7 * i + j) % 1000 for j in range(3000)] for i in range(60)]


@pytest.fixture
def root(tmp_path: Path, make_store: Make) -> Path:
    return make_store(tmp_path / "s", DOCUMENTS, tokens_per_shard=50_000)


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def loader(*stores: Any, **options: Any) -> gm.Loader:
    sources = {f"s{i}": store for i, store in enumerate(stores)}
    return gm.Loader(gm.Plan(sources, seq_len=64, batch_size=4, steps=600, **options), threads=0)


def test_a_flipped_bit_of_the_tokens_is_found_by_the_first_batch_that_reads_its_block(root: Path) -> None:
    whole = [batch["input_ids"].copy() for batch in loader(gm.open(root))]
    path = root / "train/shard-00001.bin"
    flip(path, 50_001)
    damaged: list[np.ndarray[Any, Any]] = []
    with pytest.raises(StoreError, match=r"shard-00001\.bin is damaged: its block 12 of 4,096 bytes"):
        damaged.extend(loader(gm.open(root)).batch(step)["input_ids"].copy() for step in range(600))
    assert (np.array(damaged) == np.array(whole[: len(damaged)])).all() and damaged


def test_the_same_holds_for_threads_and_for_every_cut(root: Path) -> None:
    flip(root / "train/shard-00002.bin", 0)
    store = gm.open(root)
    gm.index(store, seq_len=64)
    for cut in ("chunk", "window", "pad", "pack"):
        plan = gm.Plan({"a": store}, seq_len=64, batch_size=4, steps=700, options=gm.PlanOptions(cut=cut))
        with pytest.raises(StoreError, match=r"shard-00002\.bin"):
            list(gm.Loader(plan, threads=2))


def test_a_block_is_checked_once(root: Path) -> None:
    table = ShardTable([gm.open(root)])
    piece = np.array([100]), np.array([500])
    with table.tokens(table.shards_of(*piece), *piece):
        pass
    flip(root / "train/shard-00000.bin", 300)
    with table.tokens(table.shards_of(*piece), *piece):
        pass
    other = np.array([20_000]), np.array([500])
    flip(root / "train/shard-00000.bin", 40_100)
    with pytest.raises(StoreError, match="block 9"), table.tokens(table.shards_of(*other), *other):
        pass


def test_a_piece_over_several_shards_is_checked_in_all_of_them(root: Path) -> None:
    flip(root / "train/shard-00002.bin", 4)
    store = gm.open(root)
    piece = np.array([store.tokens_in(1) - 5]), np.array([store.tokens_in(2) - store.tokens_in(1) + 10])
    table = ShardTable([store])
    with pytest.raises(StoreError, match=r"shard-00002\.bin"), table.tokens(table.shards_of(*piece), *piece):
        pass


@pytest.mark.parametrize("rest", [2, 100, 240, 242, 4094])
def test_the_short_last_block_of_a_shard_is_checked_too(tmp_path: Path, make_store: Make, rest: int) -> None:
    size = 3 * BLOCK + rest
    root = make_store(tmp_path / "s", [[1] * (size // 2 - 1)], tokens_per_shard=10**6)
    assert (root / "train/shard-00000.bin").stat().st_size == size
    piece = np.array([0]), np.array([size // 2])
    table = ShardTable([gm.open(root)])
    with table.tokens(table.shards_of(*piece), *piece):
        pass
    flip(root / "train/shard-00000.bin", size - 1)
    table = ShardTable([gm.open(root)])
    with pytest.raises(StoreError, match="block 3"), table.tokens(table.shards_of(*piece), *piece):
        pass


def test_the_block_after_a_sample_is_read_for_its_last_label_only(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [[1] * 5000], tokens_per_shard=10**6)
    flip(root / "train/shard-00000.bin", BLOCK)
    options = gm.PlanOptions(shuffle=False)
    plan = gm.Plan({"s": gm.open(root)}, seq_len=BLOCK // 2, batch_size=1, steps=1, options=options)
    assert gm.Loader(plan, keys="input_ids", threads=0).batch(0)["input_ids"].tolist() == [[1] * (BLOCK // 2)]
    with pytest.raises(StoreError, match="block 1"):
        gm.Loader(plan, keys=("input_ids", "labels"), threads=0).batch(0)


def test_sums_of_another_shard_are_refused_even_if_the_manifest_names_them(root: Path) -> None:
    path = root / "manifest.json"
    values = json.loads(path.read_text())
    shards = values["splits"]["train"]["shards"]
    del values["sum"]
    assert shards[-1]["tokens"] < shards[0]["tokens"]
    shards[0]["blocks_checksum"] = shards[-1]["blocks_checksum"]
    path.write_text(json.dumps(values))
    files = sorted(root.rglob("*.blocks"))
    files[0].write_bytes(files[-1].read_bytes())
    with pytest.raises(StoreError, match=r"shard-00000\.blocks does not hold the sums of its tokens"):
        list(loader(gm.open(root)))


def test_foreign_and_compressed_files_beside_it_are_read_as_ever(root: Path, tmp_path: Path, make_store: Make) -> None:
    foreign = tiny_store(tmp_path / "bare")
    packed = gm.open(make_store(tmp_path / "packed", DOCUMENTS, compression="zstd"))
    mixed = loader(foreign, gm.open(root), packed)
    assert sum(1 for _ in mixed) == 600
    flip(root / "train/shard-00000.bin", 77)
    with pytest.raises(StoreError, match=r"s/train/shard-00000\.bin"):
        list(loader(foreign, gm.open(root), packed))


def test_a_store_of_an_older_version_has_no_such_sums_and_is_read(root: Path) -> None:
    path = root / "manifest.json"
    values = json.loads(path.read_text())
    whole = [batch["input_ids"].copy() for batch in loader(gm.open(root))]
    del values["sum"]
    for shard in values["splits"]["train"]["shards"]:
        del shard["blocks_checksum"], shard["ids_checksum"]
    path.write_text(json.dumps(values))
    for file in root.rglob("*.blocks"):
        file.unlink()
    again = [batch["input_ids"].copy() for batch in loader(gm.open(root))]
    assert (np.array(again) == np.array(whole)).all()
    assert gm.open(root).locate(["train-5"]) == {"train-5": [5]}
