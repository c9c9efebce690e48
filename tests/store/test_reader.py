from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError, StoreError
from gristmill.store.opening import open_store
from gristmill.store.reader import Store

Make = Callable[..., Path]


@pytest.fixture
def documents(make_documents: Callable[..., list[list[int]]]) -> list[list[int]]:
    return make_documents(30)


@pytest.fixture
def store(tmp_path: Path, make_store: Make, documents: list[list[int]]) -> Store:
    """Thirty documents in about a dozen shards."""
    return open_store(make_store(tmp_path / "s", documents, tokens_per_shard=100))


def test_figures_count_all_shards(store: Store, documents: list[list[int]]) -> None:
    assert store.num_documents == 30
    assert store.num_tokens == sum(len(document) + 1 for document in documents)
    assert store.num_shards > 8
    assert store.tokens_in(1) == store.files.tokens[0]
    assert sum(store.documents_in(i + 1) - store.documents_in(i) for i in range(store.num_shards)) == 30


def test_every_range_of_tokens_is_read_across_shards(
    store: Store, documents: list[list[int]], stream: Callable[..., Any]
) -> None:
    expected = stream(documents)
    for start in range(0, store.num_tokens, 37):
        for end in range(start, store.num_tokens + 1, 101):
            assert (store.tokens(start, end) == expected[start:end]).all()


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (5, 4), (0, 10**9)])
def test_tokens_outside_the_store_are_refused(store: Store, start: int, end: int) -> None:
    with pytest.raises(ConfigError, match="are outside"):
        store.tokens(start, end)


def test_documents_have_their_id_source_and_tokens(store: Store, documents: list[list[int]]) -> None:
    for i, document in enumerate(documents):
        found = store.document(i)
        assert (found.id, found.source, found.tokens.tolist()) == (f"train-{i}", "test", [*document, 50256])
        assert store.document_id(i) == f"train-{i}"


def test_document_spans_are_end_to_end(store: Store) -> None:
    spans = [store.document_span(i) for i in range(30)]
    assert spans[0][0] == 0 and spans[-1][1] == store.num_tokens
    assert all(left[1] == right[0] for left, right in itertools.pairwise(spans))


@pytest.mark.parametrize("number", [-1, 30])
def test_a_document_that_is_not_there_is_refused(store: Store, number: int) -> None:
    with pytest.raises(ConfigError, match="has 30 documents"):
        store.document(number)


def test_spans_of_a_range_name_each_document_with_its_positions(store: Store, documents: list[list[int]]) -> None:
    owner = [(i, p) for i, document in enumerate(documents) for p in range(len(document) + 1)]
    for start in range(0, store.num_tokens - 150, 53):
        found = [(i, p) for i, first, last in store.spans(start, start + 150) for p in range(first, last)]
        assert found == owner[start : start + 150]


def test_lengths_of_a_shards_documents(store: Store, documents: list[list[int]]) -> None:
    lengths = np.concatenate([store.document_lengths(i) for i in range(store.num_shards)])
    assert lengths.tolist() == [len(document) + 1 for document in documents]


def test_documents_are_found_by_id_in_any_shard(store: Store) -> None:
    found = store.locate(["train-29", "train-0", "nobody"])
    assert found == {"train-29": [29], "train-0": [0], "nobody": []}


def test_truncated_tokens_are_those_beyond_the_sequence(store: Store, documents: list[list[int]]) -> None:
    expected = sum(max(len(document) + 1 - 16, 0) for document in documents)
    assert store.truncated_tokens(16, store.num_shards) == expected


def test_the_fingerprint_is_of_the_content_and_not_of_the_place(
    tmp_path: Path, make_store: Make, documents: list[list[int]], store: Store
) -> None:
    elsewhere = open_store(make_store(tmp_path / "t", documents, tokens_per_shard=100))
    assert elsewhere.fingerprint == store.fingerprint
    other = open_store(make_store(tmp_path / "u", documents[:-1], tokens_per_shard=100))
    assert other.fingerprint != store.fingerprint
    assert other.fingerprint_of(3) == store.fingerprint_of(3)


def test_a_pickled_store_reads_the_same(store: Store) -> None:
    again = pickle.loads(pickle.dumps(store))
    assert (again.tokens(0, 50) == store.tokens(0, 50)).all()


def test_a_store_without_its_tokenizer_says_so_when_text_is_asked_for(store: Store) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        _ = store.document(0).text


def test_a_closed_store_opens_its_maps_again(store: Store) -> None:
    before = store.document(3).tokens.tolist()
    store.close()
    assert store.document(3).tokens.tolist() == before


@pytest.mark.parametrize("damage", ["missing", "cut off"])
def test_a_shard_that_is_missing_or_cut_off_is_named_on_opening(tmp_path: Path, make_store: Make, damage: str) -> None:
    root = make_store(tmp_path / "s", tokens_per_shard=100)
    shard = root / "train/shard-00003.bin"
    data = shard.read_bytes()
    shard.unlink() if damage == "missing" else shard.write_bytes(data[:-2])
    with pytest.raises(StoreError, match=r"shard-00003\.bin"):
        open_store(root)


@pytest.mark.parametrize("suffix", [".docs.parquet", ".ids"])
def test_damaged_names_are_reported_with_their_file(tmp_path: Path, make_store: Make, suffix: str) -> None:
    root = make_store(tmp_path / "s", tokens_per_shard=10_000)
    (root / f"train/shard-00000{suffix}").write_bytes(b"damaged")
    with pytest.raises(StoreError, match="shard-00000"):
        open_store(root).locate(["train-0"])


def test_tokens_documents_and_copies_are_compared_with_their_sums(tmp_path: Path, make_store: Make) -> None:
    documents = [[i % 1000] * 3000 for i in range(20)]
    root = make_store(tmp_path / "s", documents, tokens_per_shard=30_000)
    store = gm.open(root)
    expected = store.tokens(0, store.num_tokens)
    assert expected.tolist() == [token for i in range(20) for token in store.document(i).tokens.tolist()]
    path = root / "train/shard-00001.bin"
    data = bytearray(path.read_bytes())
    data[30_000] ^= 1
    path.write_bytes(data)
    damaged = gm.open(root)
    hit = damaged.tokens_in(1) + 15_000
    assert np.array_equal(damaged.tokens(0, hit - 3000), expected[: hit - 3000])
    for reads in (
        lambda: damaged.tokens(hit, hit + 1),
        lambda: [document.tokens for document in damaged],
        lambda: gm.export(root, "llmc", tmp_path / "out"),
    ):
        with pytest.raises(gm.StoreError, match=r"shard-00001\.bin is damaged: the sum of its block 7"):
            reads()
