"""An `.idx` is checked once, when it is mapped: after that no entry of it can lead anyone astray."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.errors import StoreError
from gristmill.store.format import IDX_HEADER, IDX_MAGIC, write_idx
from gristmill.store.idx import check_idx

Bare = Callable[..., Path]
KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")


def idx_of(lengths: list[int]) -> np.ndarray[Any, Any]:
    file = io.BytesIO()
    write_idx(file, np.array(lengths, dtype=np.int64), "uint16")
    return np.frombuffer(file.getvalue(), np.uint8).copy()


def idx_from(sequences: list[int], pointers: list[int], marks: list[int]) -> bytes:
    """An index with whatever arrays."""
    head = IDX_MAGIC + (1).to_bytes(8, "little") + bytes([8])
    counts = len(sequences).to_bytes(8, "little") + len(marks).to_bytes(8, "little")
    arrays = (
        np.array(values, kind).tobytes() for values, kind in ((sequences, "<i4"), (pointers, "<i8"), (marks, "<i8"))
    )
    return head + counts + b"".join(arrays)


def test_a_good_index_passes_and_one_of_many_chunks_too() -> None:
    assert check_idx(idx_of([3, 2]), "x.idx", 5, 2).documents == 2
    lengths = np.random.default_rng(0).integers(0, 9, 100_000)
    data = idx_of(lengths.tolist())
    assert check_idx(data, "x.idx", int(lengths.sum()), 2).documents == 100_000
    at = IDX_HEADER + 4 * 100_000 + 8 * 65_536  # the first pointer of a later chunk
    data[at : at + 8] = 0
    with pytest.raises(StoreError, match="do not follow one another"):
        check_idx(data, "x.idx", int(lengths.sum()), 2)


@pytest.mark.parametrize(
    ("sequences", "pointers", "marks"),
    [
        ([3, 2], [0, 6], [0, 2**40, 2]),  # a mark far outside
        ([3, 2], [0, 6], [0, -1, 2]),
        ([3, 2], [0, 6], [0, 1, 1]),  # the last sequence belongs to no document
        ([3, 2], [0, 6], [1, 1, 2]),
        ([3, 2], [6, 0], [0, 1, 2]),  # falling
        ([3, 2], [0, 12], [0, 1, 2]),  # outside the tokens
        ([3, 2], [0, 3], [0, 1, 2]),  # inside a token
        ([3, 2], [2, 6], [0, 1, 2]),  # does not begin with the first token
        ([3, 2], [0, 2**62], [0, 1, 2]),
        ([3, 2], [0, -6], [0, 1, 2]),
        ([], [], [0]),  # tokens without documents
    ],
)
def test_an_index_that_leads_outside_is_refused_by_all_that_read_it(
    tmp_path: Path, sequences: list[int], pointers: list[int], marks: list[int]
) -> None:
    np.arange(5, dtype=np.uint16).tofile(tmp_path / "a.bin")
    (tmp_path / "a.idx").write_bytes(idx_from(sequences, pointers, marks))

    def read_all() -> None:
        store = gm.open(tmp_path / "a.bin", eos=0)
        for cut in ("chunk", "pad"):
            plan = gm.Plan({"a": store}, seq_len=2, batch_size=1, options=gm.PlanOptions(cut=cut))
            list(gm.Loader(plan, keys=KEYS, threads=0))

    with pytest.raises(StoreError, match=r"a\.(idx|bin)"):
        read_all()
    with pytest.raises(StoreError, match=r"a\.(idx|bin)"):
        gm.open(tmp_path / "a.bin", eos=0).spans(0, 5)


def test_empty_documents_at_the_end_are_at_the_end_for_every_reader(tmp_path: Path) -> None:
    np.arange(6, dtype=np.uint16).tofile(tmp_path / "a.bin")
    (tmp_path / "a.idx").write_bytes(idx_from([2, 4], [0, 4], [0, 0, 1, 2, 2, 2]))
    store = gm.open(tmp_path / "a.bin", eos=9)
    assert store.document_lengths(0).tolist() == [0, 2, 4, 0, 0]
    assert [store.document_span(i) for i in range(5)] == [(0, 0), (0, 2), (2, 6), (6, 6), (6, 6)]
    assert store.spans(0, 6) == [(1, 0, 2), (2, 0, 4)]
    plan = gm.Plan({"a": store}, seq_len=4, batch_size=5, options=gm.PlanOptions(cut="pad", shuffle=False))
    assert gm.Loader(plan, threads=0).batch(0)["input_ids"].tolist() == [
        [9] * 4, [0, 1, 9, 9], [2, 3, 4, 5], [9] * 4, [9] * 4
    ]  # fmt: skip


@pytest.mark.parametrize("size", [0, 5, 33, 34, 60])
def test_an_index_of_a_store_that_was_cut_off_is_named(tmp_path: Path, make_store: Bare, size: int) -> None:
    root = make_store(tmp_path / "s")
    path = root / "train/shard-00001.idx"
    path.write_bytes(path.read_bytes()[:size])
    plan = gm.Plan({"a": gm.open(root)}, seq_len=8, batch_size=4)
    with pytest.raises(StoreError, match=r"shard-00001\.idx"):
        list(gm.Loader(plan, keys=("doc_ids",), threads=0))
    with pytest.raises(StoreError, match=r"shard-00001\.idx"):
        gm.open(root).document_lengths(1)


def test_lengths_that_disagree_with_the_places_are_refused_also_at_the_edge_of_a_chunk() -> None:
    with pytest.raises(StoreError, match="do not have the lengths that it says, in tokens of 1 bytes"):
        check_idx(idx_of([3, 2]), "x.idx", 10, 1)  # its dtype's code was changed
    lengths = [1] * 65_537
    data = idx_of(lengths)
    data[IDX_HEADER + 4 * 65_535] = 2
    with pytest.raises(StoreError, match="do not have the lengths"):
        check_idx(data, "x.idx", 65_537, 2)
