"""Documents as batches: their columns, names by place, and sizes that do not depend on how they came."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gristmill.sources.base import InputFile
from gristmill.sources.batches import BATCH_BYTES, BATCH_DOCUMENTS, BYTE, ROW, document_batch, place_ids, rebatch

FILE = InputFile("web", Path("/somewhere/part.jsonl"), "part.jsonl")


def batch(texts: list[str]) -> pa.RecordBatch:
    rows = list(range(len(texts)))
    return document_batch(FILE, rows, pa.array(texts, pa.large_string()), place_ids(FILE, BYTE, rows), {})


def test_documents_that_bring_no_id_are_called_by_their_place() -> None:
    assert place_ids(FILE, BYTE, [0, 1842]).to_pylist() == ["web/part.jsonl@0", "web/part.jsonl@1842"]
    assert place_ids(FILE, ROW, [7]).to_pylist() == ["web/part.jsonl:7"]


def test_a_batch_has_the_columns_that_every_room_knows_and_those_carried() -> None:
    made = document_batch(FILE, [3], pa.array(["a"], pa.large_string()), pa.array(["x"]), {"url": pa.array(["u"])})
    assert made.to_pylist() == [{"id": "x", "source": "web", "path": "part.jsonl", "row": 3, "text": "a", "url": "u"}]


@given(st.lists(st.integers(0, 3 * BATCH_DOCUMENTS // 2), max_size=5))
def test_batches_are_filled_up_and_no_document_is_lost(counts: list[int]) -> None:
    texts = [["x"] * count for count in counts]
    made = list(rebatch(batch(part) for part in texts))
    assert sum(len(one) for one in made) == sum(counts)
    assert all(0 < len(one) <= BATCH_DOCUMENTS for one in made)


def test_a_batch_holds_about_8_mib_of_text_and_a_longer_document_stands_alone() -> None:
    sizes = [BATCH_BYTES // 2, BATCH_BYTES // 2, 1, 3 * BATCH_BYTES, 1]
    made = list(rebatch([batch(["x" * size for size in sizes])]))
    assert [[len(text) for text in one.column("text").to_pylist()] for one in made] == [
        [BATCH_BYTES // 2] * 2, [1], [3 * BATCH_BYTES], [1]]  # fmt: skip


def test_a_slice_of_a_larger_table_is_measured_by_its_own_bytes() -> None:
    whole = batch(["x" * BATCH_BYTES, "a", "b", "y" * BATCH_BYTES])
    assert [len(one) for one in rebatch([whole.slice(1, 2)])] == [2]
