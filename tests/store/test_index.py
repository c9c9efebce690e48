"""The pack index: whole documents, nothing lost, bounded, built once."""

import json
import multiprocessing
import os

import numpy as np
import pytest

import gristmill as gm
from gristmill.order.cut import Pack
from gristmill.store.format import write_idx
from gristmill.store.index import index_path, layout
from gristmill.testing import random_documents, tiny_store


@pytest.fixture
def store(tmp_path):
    return tiny_store(tmp_path / "web", random_documents(500, seed=4), shards=3)


def pieces_by_document(store, index, bins):
    """For each document the (bin, start, end) of its pieces."""
    found = {}
    for b in range(bins):
        for document, start, end in Pack(store).spans(b, index.seq_len):
            found.setdefault(document, []).append((b, start, end))
    return found


def covered(store, index, bins):
    """How often each token is in one of the bins, and how full each bin is."""
    counts, fills = np.zeros(store.num_tokens, dtype=int), []
    for b in range(bins):
        pieces = Pack(store).spans(b, index.seq_len)
        for document, start, end in pieces:
            first, _ = store.document_span(document)
            counts[first + start : first + end] += 1
        fills.append(sum(end - start for _, start, end in pieces))
    return counts, np.array(fills)


@pytest.mark.parametrize("seq_len", [4, 16, 64, 1000])
def test_every_token_is_in_exactly_one_bin_and_no_bin_overflows(store, seq_len):
    gm.index(store, seq_len=seq_len)
    index = store.pack_index(seq_len)
    counts, fills = covered(store, index, index.bins_in(3))
    assert (counts == 1).all()
    assert fills.min() > 0
    assert fills.max() <= seq_len


def test_documents_that_fit_a_window_are_never_split(store):
    gm.index(store, seq_len=64)
    index = store.pack_index(64)
    for document, placed in pieces_by_document(store, index, index.bins_in(3)).items():
        pieces = [(start, end) for _, start, end in placed]
        first, last = store.document_span(document)
        if last - first <= 64:
            assert pieces == [(0, last - first)]
        else:
            assert sorted(pieces)[0] == (0, 64)
            assert len(pieces) == -(-(last - first) // 64)


def test_packing_wastes_little(store):
    gm.index(store, seq_len=256)
    bins = store.pack_index(256).bins_in(3)
    assert store.num_tokens / (bins * 256) > 0.95


def test_bins_of_a_document_are_those_that_hold_it(store):
    gm.index(store, seq_len=16)
    index = store.pack_index(16)
    placed = pieces_by_document(store, index, index.bins_in(3))
    expected = {document: [b for b, _, _ in pieces] for document, pieces in placed.items()}
    assert {d: sorted(index.bins_of(np.array([d]))[1].tolist()) for d in range(store.num_documents)} == expected


def test_many_ranges_pack_like_one_after_another(tmp_path):
    store = tiny_store(tmp_path, random_documents(500, seed=4), shards=2)
    gm.index(store, seq_len=16, range_documents=37)
    index = store.pack_index(16)
    counts, _ = covered(store, index, index.bins_in(2))
    assert (counts == 1).all()
    assert index.range_documents == 37 and index.bins_a_range == index.bins_in(2) / (2 * 7)


def test_documents_of_a_bin_lie_as_near_as_their_range(store):
    gm.index(store, seq_len=64, range_documents=16)
    index = store.pack_index(64)
    for b in range(index.bins_in(3)):
        documents = [document for document, _, _ in Pack(store).spans(b, 64)]
        assert max(documents) - min(documents) < 16


def test_an_index_of_larger_ranges_is_not_taken_for_the_one_that_is_wanted(store):
    gm.index(store, seq_len=16)
    with pytest.raises(gm.ConfigError, match=r"packs \d+ documents together.*force=True"):
        gm.index(store, seq_len=16, range_documents=8)
    gm.index(store, seq_len=16, range_documents=1000)  # no range has that many
    gm.index(store, seq_len=16, range_documents=8, force=True)
    assert gm.open([store.files.path(i) for i in range(3)], dtype="uint16", eos=256).pack_index(16).range_documents == 8
    with pytest.raises(gm.ConfigError, match="range_documents must be a whole number above 0"):
        gm.index(store, seq_len=16, range_documents=0)


def test_plans_over_other_ranges_are_other_plans(store):
    prints = set()
    for together in (8, 100):
        gm.index(store, seq_len=16, range_documents=together, force=True)
        fresh = gm.open([store.files.path(i) for i in range(3)], dtype="uint16", eos=256)
        prints.add(gm.Plan(fresh, seq_len=16, batch_size=4, options={"cut": "pack"}).fingerprint)
    assert len(prints) == 2


def test_the_index_takes_at_most_16_bytes_a_document(tmp_path):
    store = tiny_store(tmp_path, random_documents(20_000, mean_tokens=3), shards=1)
    size = os.path.getsize(gm.index(store, seq_len=64))
    assert size <= 16 * store.num_documents


def test_a_store_that_grew_keeps_its_bins_and_asks_for_a_new_index(tmp_path):
    store = tiny_store(tmp_path, random_documents(300), shards=3)
    paths = [tmp_path / f"part-{i}.bin" for i in range(3)]
    first = gm.open(paths[:2], dtype="uint16", eos=256)
    gm.index(first, seq_len=16)
    plan = gm.Plan({"web": first}, seq_len=16, batch_size=4, options=gm.PlanOptions(cut="pack"))
    with pytest.raises(gm.ConfigError, match="covers 2 of 3 shards"):
        gm.Plan({"web": store}, seq_len=16, batch_size=4, options=gm.PlanOptions(cut="pack"))
    gm.index(store, seq_len=16, force=True)
    grown = gm.open(paths, dtype="uint16", eos=256)
    assert gm.Plan.from_json(plan.to_json(), {"web": grown}).fingerprint == plan.fingerprint


def test_an_index_of_another_store_is_refused(store, tmp_path):
    path = gm.index(store, seq_len=16)
    other = tiny_store(tmp_path / "other", random_documents(500, seed=9), shards=3)
    index_path(other, 16).write_bytes(path.read_bytes())
    with pytest.raises(gm.ConfigError, match="built for another store"):
        other.pack_index(16)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"x" + data[1:]])
def test_a_damaged_index_is_refused(store, damage):
    path = gm.index(store, seq_len=16)
    path.write_bytes(damage(path.read_bytes()))
    fresh = gm.open([store.files.path(i) for i in range(3)], dtype="uint16", eos=256)
    with pytest.raises(gm.StoreError, match="gristmill index --force"):
        fresh.pack_index(16)


def all_pieces(store, shards):
    index = store.pack_index(16)
    return index.pieces_of(np.arange(index.bins_in(shards)))


def test_any_changed_byte_of_an_index_is_found_by_whoever_reads_it(store):
    """The whole file is read below: every bin, and every document's."""
    path = gm.index(store, seq_len=16)
    data, files = path.read_bytes(), [store.files.path(i) for i in range(3)]
    for at in [*range(40), *range(300, len(data), 97)]:
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        with pytest.raises(gm.StoreError, match="gristmill index --force"):
            all_pieces(gm.open(files, dtype="uint16", eos=256), 3)


OLD_INDEX_DAMAGE = [("range_docs", 1, 2**40), ("range_bins", 1, 10**6), ("range_pieces", 0, -1), ("shard_ranges", 2, 9),
                    ("order", 5, 2**31), ("piece_starts", 3, 2**31), ("full_before", 7, 2**31)]  # fmt: skip


@pytest.mark.parametrize(("name", "at", "value"), OLD_INDEX_DAMAGE)
def test_an_index_without_sums_still_opens_and_its_values_are_checked(store, monkeypatch, name, at, value):
    path = gm.index(store, seq_len=16)
    index, pieces = store.pack_index(16), all_pieces(store, 3)
    data = bytearray(path.read_bytes())
    header = {key: item for key, item in index.header.items() if key != "tables"}
    text = json.dumps(header).encode()
    data[:4096] = (b"GMPACK\0\1" + len(text).to_bytes(8, "little") + text).ljust(4096, b"\0")
    path.write_bytes(bytes(data))
    files = [store.files.path(i) for i in range(3)]
    for found, expected in zip(all_pieces(gm.open(files, dtype="uint16", eos=256), 3), pieces, strict=True):
        assert (found == expected).all()
    place, kind, _ = layout(header["documents"], header["ranges"], header["shards"])[name]
    place += at * np.dtype(kind).itemsize
    data[place : place + np.dtype(kind).itemsize] = np.array([value], kind).tobytes()
    path.write_bytes(bytes(data))
    monkeypatch.setattr("gristmill.store.index.shard_sum", lambda columns, bins: int(index._shard_sums[0]))
    with pytest.raises(gm.StoreError, match="gristmill index --force"):
        all_pieces(gm.open(files, dtype="uint16", eos=256), 1)


def test_an_index_that_was_made_of_other_boundaries_is_refused_by_the_loader(tmp_path, make_bare):
    path = make_bare(tmp_path / "a.bin", [[1] * (5 + 11 * i) for i in range(9)], idx=True)
    gm.index(gm.open(path), seq_len=16)
    with open(path.with_suffix(".idx"), "wb") as file:
        write_idx(file, np.array([6 + 11 * i for i in reversed(range(9))]), "uint16")
    plan = gm.Plan({"a": gm.open(path, eos=2)}, seq_len=16, batch_size=1, options=gm.PlanOptions(cut="pack"))
    with pytest.raises(gm.StoreError, match=r"does not fit the documents.*gristmill index"):
        list(gm.Loader(plan, threads=0))


def test_equal_stores_give_equal_indices(store, tmp_path):
    again = tiny_store(tmp_path / "again", random_documents(500, seed=4), shards=3)
    assert gm.index(store, seq_len=16).read_bytes() == gm.index(again, seq_len=16).read_bytes()


def test_an_index_may_live_in_a_folder_of_its_own(store, tmp_path):
    paths = [store.files.path(i) for i in range(3)]
    apart = gm.open(paths, dtype="uint16", eos=256, index_dir=tmp_path / "indices")
    assert gm.index(apart, seq_len=16).parent == tmp_path / "indices"
    assert apart.pack_index(16).bins_in(3) > 0


def _build(paths, queue):
    store = gm.open(paths, dtype="uint16", eos=256)
    path = gm.index(store, seq_len=16)
    queue.put((store.pack_index(16).bins_in(3), os.stat(path).st_ino))


def test_of_many_ranks_one_builds_and_the_others_wait(store):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    paths = [store.files.path(i) for i in range(3)]
    ranks = [context.Process(target=_build, args=(paths, queue)) for _ in range(3)]
    for rank in ranks:
        rank.start()
    results = {queue.get(timeout=120) for _ in ranks}
    for rank in ranks:
        rank.join()
    assert len(results) == 1  # one file, never replaced by a second builder
