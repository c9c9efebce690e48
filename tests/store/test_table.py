"""Several stores as one row of shards, kept by the first of them for whoever asks next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.store.table import ShardTable, offsets, table_of
from gristmill.testing import random_documents, tiny_store

Make = Callable[..., Path]


@pytest.fixture
def stores(tmp_path: Path) -> list[gm.Store]:
    return [tiny_store(tmp_path / name, random_documents(90, seed=i), shards=3) for i, name in enumerate("ab")]


def test_tokens_and_documents_are_counted_on_from_store_to_store(stores: list[gm.Store]) -> None:
    table = ShardTable(stores)
    assert table.bases.tolist() == [0, stores[0].num_tokens, stores[0].num_tokens + stores[1].num_tokens]
    assert table.starts[-1] == table.bases[-1]
    assert table.documents.bases.tolist() == [0, 90, 180]
    assert table.documents.shards_of(np.array([0, 89, 90, 179])).tolist() == [0, 2, 3, 5]


def test_the_shards_of_pieces_are_all_that_they_touch(stores: list[gm.Store]) -> None:
    table = ShardTable(stores)
    ends = table.starts[1:]
    assert table.shards_of(np.array([0, ends[1] - 1]), np.array([1, 2])).tolist() == [0, 1, 2]
    assert table.shards_of(np.array([ends[0]]), np.array([int(ends[3] - ends[0])])).tolist() == [1, 2, 3]


def test_offsets_begin_with_nothing_and_end_with_all() -> None:
    assert offsets(np.array([3, 0, 4])).tolist() == [0, 3, 3, 7]


def test_the_table_of_the_same_stores_is_the_same_and_that_of_others_another(stores: list[gm.Store]) -> None:
    both = table_of(stores)
    assert table_of(list(stores)) is both
    assert table_of(stores, max_maps=5) is not both
    assert table_of(stores[:1]) is not both and table_of(stores[1:]) is table_of(stores[1:])
    stores[0].close()
    assert stores[0].table is None


def test_a_second_loader_of_an_opened_store_checks_nothing_again(tmp_path: Path, make_store: Make) -> None:
    store = gm.open(make_store(tmp_path / "s", [[1, 2, 3] * 3000]))
    plan = gm.Plan(store, seq_len=100, batch_size=10)
    first = [batch["input_ids"].copy() for batch in gm.Loader(plan)]
    for path in (tmp_path / "s/train").glob("*.blocks"):
        path.unlink()
    assert np.array_equal(first, [batch["input_ids"] for batch in gm.Loader(plan)])
    with pytest.raises(gm.StoreError, match=r"\.blocks cannot be opened"):
        list(gm.Loader(gm.Plan(gm.open(tmp_path / "s"), seq_len=100, batch_size=10)))
