"""A compressed store is the same store: every way to read it gives what the plain one gives."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError, StoreError
from gristmill.store.exchange import join
from gristmill.store.export import FORMATS, export_store
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.manifest import load_manifest
from gristmill.store.opening import open_store
from gristmill.store.reader import Store
from gristmill.store.verify import verify

Make = Callable[..., Path]
Pair = tuple[Path, Path]
PER_SHARD = 180_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, make_store: Make) -> Pair:
    """The same text as a plain and as a compressed store of several shards, each of several frames."""
    documents = [list(text.encode()) for text in topics.values()]
    folder = tmp_path_factory.mktemp("pair")
    made = {"documents": documents, "val": documents[:3], "vocab": 257, "tokens_per_shard": PER_SHARD}
    plain = make_store(folder / "plain", **made)
    return plain, make_store(folder / "packed", compression="zstd", **made)


@pytest.fixture
def damaged(tmp_path: Path, pair: Pair) -> Path:
    return Path(shutil.copytree(pair[1], tmp_path / "packed"))


@pytest.fixture(scope="module")
def stores(pair: Pair) -> tuple[Store, Store]:
    return open_store(pair[0]), open_store(pair[1])


def test_only_the_token_files_differ(pair: Pair) -> None:
    plain, packed = pair
    names = sorted(str(path.relative_to(plain)) for path in plain.rglob("shard-*"))
    assert len(names) >= 15
    for name in names:
        if name.endswith(".bin"):
            assert not (packed / name).exists()
            assert (packed / f"{name}.zst").stat().st_size < 0.6 * (plain / name).stat().st_size
        else:
            assert (packed / name).read_bytes() == (plain / name).read_bytes()


def test_the_manifest_states_the_compression_and_plain_ones_do_not_change(pair: Pair) -> None:
    plain, packed = (json.loads((root / "manifest.json").read_text()) for root in pair)
    assert packed["compression"] == load_manifest(pair[1]).compression == "zstd"
    assert "compression" not in plain and "compressed_bytes" not in plain["splits"]["train"]["shards"][0]
    assert load_manifest(pair[0]).compression == "none"
    for shard in packed["splits"]["train"]["shards"]:
        assert shard["compressed_bytes"] == (pair[1] / shard["path"]).stat().st_size
    mine, its = (root["splits"]["train"]["shards"][1]["checksum"] for root in (plain, packed))
    assert mine == its


def test_figures_and_fingerprint_are_those_of_the_plain_store(stores: tuple[Store, Store]) -> None:
    plain, packed = stores
    assert packed.num_shards == plain.num_shards > 2
    assert packed.files.tokens.max() > 2 * FRAME_TOKENS
    figures = [(store.num_tokens, store.num_documents, store.fingerprint) for store in stores]
    assert figures[0] == figures[1]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_range_of_tokens_is_the_same(stores: tuple[Store, Store], data: st.DataObject) -> None:
    plain, packed = stores
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, plain.num_tokens)] * 2)))
    found = packed.tokens(a, b)
    assert found.dtype == plain.dtype
    assert (found == plain.tokens(a, b)).all()


def test_edges_of_frames_and_shards_are_the_same(stores: tuple[Store, Store]) -> None:
    plain, packed = stores
    edges = [FRAME_TOKENS, 2 * FRAME_TOKENS, *np.cumsum(plain.files.tokens).tolist()]
    for edge in edges:
        for a, b in ((edge - 1, edge), (edge - 1, edge + 1), (edge, edge + 1), (edge, edge)):
            b = min(b, plain.num_tokens)
            assert packed.tokens(min(a, b), b).tolist() == plain.tokens(min(a, b), b).tolist()


def test_every_document_is_the_same(stores: tuple[Store, Store]) -> None:
    plain, packed = stores
    for i in range(plain.num_documents):
        mine, its = plain.document(i), packed.document(i)
        assert (mine.id, mine.source, mine.record) == (its.id, its.source, its.record)
        assert (mine.tokens == its.tokens).all()
    assert packed.locate(["train-7"]) == plain.locate(["train-7"]) == {"train-7": [7]}


def test_wider_tokens_are_compressed_as_well(tmp_path: Path, make_store: Make) -> None:
    documents = [list(range(70_000)), [99_000] * 70_000]
    root = make_store(tmp_path / "wide", documents, vocab=100_000, tokens_per_shard=10**6, compression="zstd")
    store = open_store(root)
    assert store.dtype == np.uint32
    assert store.tokens(0, 70_000).tolist() == documents[0]
    assert store.document(1).tokens[:-1].tolist() == documents[1]
    assert verify(root).faults == []


def test_a_compressed_shard_alone_is_no_store(pair: Pair) -> None:
    with pytest.raises(ConfigError, match="is compressed: open the folder of its store"):
        open_store(pair[1] / "train/shard-00000.bin.zst")


# Damage.


def test_a_whole_compressed_store_has_no_faults(pair: Pair) -> None:
    verdicts = [verify(root) for root in pair]
    assert len({(found.shards, found.tokens, found.documents) for found in verdicts}) == 1
    assert [(found.faults, found.unlisted) for found in verdicts] == [([], [])] * 2


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 16
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("where", [0.01, 0.3, 0.5, 0.75, 0.99])
def test_a_flipped_bit_is_found_by_reading_and_by_verify(damaged: Path, where: float) -> None:
    path = damaged / "train/shard-00001.bin.zst"
    flip(path, int(path.stat().st_size * where))
    store = open_store(damaged)
    first = store.tokens_in(1)
    assert len(store.tokens(0, first)) == first
    with pytest.raises(StoreError, match=r"shard .*shard-00001\.bin\.zst .*make the store again"):
        store.tokens(first, store.tokens_in(2))
    faults = verify(damaged).faults
    assert len(faults) == 1 and "shard-00001.bin.zst" in faults[0]


def test_a_truncated_shard_is_named_when_the_store_is_opened(damaged: Path) -> None:
    path = damaged / "train/shard-00001.bin.zst"
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(StoreError, match=r"shard-00001\.bin\.zst has .* bytes, .* were expected"):
        open_store(damaged)
    assert ["shard-00001.bin.zst" in fault for fault in verify(damaged).faults] == [True]


def test_a_shard_of_another_text_with_the_right_size_is_found(damaged: Path) -> None:
    path = damaged / "train/shard-00001.bin.zst"
    size, other = path.stat().st_size, (damaged / "train/shard-00000.bin.zst").read_bytes()
    path.write_bytes(other[:size].ljust(size, b"\0"))
    with pytest.raises(StoreError, match=r"shard-00001\.bin\.zst"):
        open_store(damaged).shard_tokens(1)
    assert verify(damaged).faults


def test_frames_in_another_order_than_the_seek_table_says_are_found(damaged: Path) -> None:
    """Two sizes of the table are exchanged: their sum, the file's size and the decompressed sizes all stay right."""
    path = damaged / "train/shard-00000.bin.zst"
    data = bytearray(path.read_bytes())
    data[-33:-29], data[-25:-21] = data[-25:-21], data[-33:-29]
    assert bytes(data) != path.read_bytes()
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"Frame 0 of shard .*shard-00000\.bin\.zst"):
        open_store(damaged).shard_tokens(0)


# Exchange.


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_an_export_is_the_plain_stores_with_a_note(tmp_path: Path, make_store: Make, form: str) -> None:
    documents = [[(7 * i) % 50_000 for i in range(length)] for length in (90_000, 3, 70_000)]
    reports = {}
    for compression in ("none", "zstd"):
        folder = tmp_path / compression / "store"
        root = make_store(folder, documents, val=[[1] * 599], tokens_per_shard=100_000, compression=compression)
        # The documents of WebDataset are texts, and this store has no tokenizer.
        rows = {"seq_len": 512} if form == "webdataset" else {}
        reports[compression] = export_store(root, form, tmp_path / compression / "out", **rows)
    plain, packed = (tmp_path / name / "out" for name in ("none", "zstd"))
    names, others = (
        sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file()) for out in (plain, packed)
    )
    assert names == others
    files = [name for name in names if name.name != "gristmill-export.json"]  # which names the store
    assert all((plain / name).read_bytes() == (packed / name).read_bytes() for name in files)
    size = 2 * (sum(map(len, documents)) + len(documents) + 600)
    note = f"Compressed shards were decompressed: {size:,} bytes of tokens are copies, not links."
    assert note in reports["zstd"].notes and note not in reports["none"].notes
    assert not any(name.endswith((".bin", ".npy")) for name in reports["zstd"].linked)


@pytest.mark.parametrize("which", [(1, 1), (0, 1)])
def test_compressed_stores_join_with_each_other_and_with_plain_ones(
    tmp_path: Path, pair: Pair, make_store: Make, which: tuple[int, int]
) -> None:
    other = make_store(tmp_path / "other", [[1] * 70_000], vocab=257, compression="zstd")
    manifest = join([pair[which[0]], other], tmp_path / "joined")
    assert manifest.compression == ("zstd" if which[0] else "mixed")
    store, parts = open_store(tmp_path / "joined"), [open_store(pair[0]), open_store(other)]
    assert (store.tokens(0, store.num_tokens) == np.concatenate([p.tokens(0, p.num_tokens) for p in parts])).all()
    assert verify(tmp_path / "joined").faults == []
    listed = open_store([pair[which[0]], other])
    assert (listed.tokens(0, listed.num_tokens) == store.tokens(0, store.num_tokens)).all()


def test_a_store_is_read_in_a_forked_child_and_after_pickling(stores: tuple[Store, Store]) -> None:
    plain, packed = stores
    expected = plain.tokens(1000, 200_000)
    copy = pickle.loads(pickle.dumps(packed))
    assert (copy.tokens(1000, 200_000) == expected).all()
    child = os.fork()
    if child == 0:
        os._exit(0 if (packed.tokens(1000, 200_000) == expected).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
