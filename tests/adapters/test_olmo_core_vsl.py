"""Our shards under OLMo-core's variable sequence lengths: pieces of documents whose lengths are powers of two.

Dropped by its own rules: what is left of a document under min_sequence_length, and in its loader what fills no batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from olmo_core.data import NumpyDataLoaderConfig, NumpyVSLDatasetConfig

from gristmill.store.export import export_store
from gristmill.store.opening import open_store

SHORTEST, LONGEST = 4, 32
Tokens = tuple[int, ...]


def pieces(document: list[int]) -> Iterator[Tokens]:
    """The largest power of two that is left, at most LONGEST, again and again."""
    at = 0
    while len(document) - at >= SHORTEST:
        length = min(LONGEST, 1 << (len(document) - at).bit_length() - 1)
        yield tuple(document[at : at + length])
        at += length


@pytest.fixture(params=[50_257, 128_256], ids=["uint16", "uint32"])
def split(request: pytest.FixtureRequest, tmp_path: Path, make_store: Callable[..., Path]) -> tuple[Any, list[Tokens]]:
    """OLMo-core's data set over an exported store, and the pieces that it should hold."""
    root = make_store(tmp_path / "corpus", vocab=request.param, tokens_per_shard=700)
    names: dict[str, Any] = {}
    exec(export_store(root, "olmo", tmp_path / "out").notes[0], names)
    config = NumpyVSLDatasetConfig(
        max_sequence_length=LONGEST, min_sequence_length=SHORTEST, work_dir=str(tmp_path / "work"), **names["files"]
    )
    dataset = config.build()
    dataset.prepare()
    store = open_store(root)
    assert store.num_shards > 2
    documents = [store.document(i).tokens.tolist() for i in range(store.num_documents)]
    return dataset, [piece for document in documents for piece in pieces(document)]


def test_olmo_core_decomposes_every_document(split: tuple[Any, list[Tokens]]) -> None:
    dataset, expected = split
    assert {len(piece) for piece in expected} == {4, 8, 16, 32}
    assert [tuple(dataset[i]["input_ids"].tolist()) for i in range(len(dataset))] == expected


def test_its_loader_gives_each_piece_once(split: tuple[Any, list[Tokens]], tmp_path: Path) -> None:
    dataset, expected = split
    # Its default of 4 threads fails on batches of 1 or 2 rows: a thread starts when its first row is asked for, and
    # counts from the batches that have been processed by then.
    config = NumpyDataLoaderConfig(
        global_batch_size=2 * LONGEST, seed=0, work_dir=str(tmp_path / "work"), num_threads=0
    )
    loader = config.build(dataset)
    loader.reshuffle(1)
    found = [tuple(row) for batch in loader for row in batch["input_ids"].tolist()]
    assert sum(map(len, found)) == loader.total_batches * 2 * LONGEST
    assert Counter(found) <= Counter(expected)
    unread = Counter(map(len, expected))
    unread.subtract(map(len, found))
    assert all(count * length < 2 * LONGEST for length, count in unread.items())
