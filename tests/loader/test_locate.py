"""Where the tokens of samples lie, by each cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.errors import StoreError
from gristmill.loader.locate import find_pieces
from gristmill.loader.pieces import Pieces
from gristmill.store.table import ShardTable
from gristmill.testing import tiny_store

DOCUMENTS = [[7] * 9, [8] * 3, [9] * 20, [5] * 4]  # and an EOS after each


def located(folder: Path, cut: str, documents: list[list[int]] = DOCUMENTS) -> Pieces:
    store = tiny_store(folder, documents, shards=1)
    if cut == "pack":
        gm.index(store, 8)
    options = gm.PlanOptions(cut=cut, shuffle=False)
    plan = gm.Plan({"a": store}, seq_len=8, batch_size=1, options=options)
    table = ShardTable([store])
    return find_pieces(plan, table, plan.segment(0), np.concatenate([plan.samples(s) for s in range(len(plan))]))


def test_a_chunk_is_a_stretch_of_the_stream_and_the_last_has_no_token_after_it(tmp_path: Path) -> None:
    found = located(tmp_path, "chunk", [[7] * 31])
    assert found.positions.tolist() == [0, 8, 16, 24] and set(found.lengths.tolist()) == {8}
    assert found.follows.tolist() == [True, True, True, False]


def test_packed_windows_hold_every_token_once_side_by_side(tmp_path: Path) -> None:
    found = located(tmp_path, "pack")
    read = np.concatenate([np.arange(a, a + n) for a, n in zip(found.positions, found.lengths, strict=True)])
    assert sorted(read.tolist()) == list(range(40)) and (found.columns + found.lengths <= 8).all()
    assert (np.diff(found.rows) >= 0).all() and not found.truncated.any()


def test_a_padded_row_is_the_beginning_of_one_document_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    found = located(tmp_path, "pad")
    assert found.positions.tolist() == [0, 10, 14, 35] and found.lengths.tolist() == [8, 4, 8, 5]
    assert found.truncated.tolist() == [2, 0, 13, 0]


def test_a_pack_index_of_other_documents_is_refused(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, DOCUMENTS, shards=1)
    gm.index(store, 8)
    plan = gm.Plan({"a": store}, seq_len=8, batch_size=1, options=gm.PlanOptions(cut="pack"))
    everything = np.concatenate([plan.samples(step) for step in range(len(plan))])
    other = tiny_store(tmp_path / "other", [[1]] * 4, shards=1)
    with pytest.raises(StoreError, match="does not fit the documents"):
        find_pieces(plan, ShardTable([other]), plan.segment(0), everything)
