"""Parquet files of documents: they appear whole, and are read batch by batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.stages.tables import batches_of, document_schema, fitted, pass_writers, table_writer, without

BATCH = pa.record_batch({"doc": [0, 1, 2], "id": ["a", "b", "c"]})


def test_a_batch_is_a_row_group_and_comes_back_as_one(tmp_path: Path) -> None:
    with table_writer(tmp_path / "a.parquet", BATCH.schema) as writer:
        writer.write_batch(BATCH)
        writer.write_batch(BATCH.slice(1))
        assert not (tmp_path / "a.parquet").exists()
    assert [batch.to_pydict() for batch in batches_of(tmp_path / "a.parquet", ["id"])] == [
        {"id": ["a", "b", "c"]}, {"id": ["b", "c"]},
    ]  # fmt: skip


def test_a_pass_that_fails_leaves_no_file(tmp_path: Path) -> None:
    paths = [tmp_path / "kept.parquet", tmp_path / "dropped.parquet"]
    with pytest.raises(ValueError, match="schema"), pass_writers(paths, BATCH.schema) as (kept, _):
        kept.write_batch(BATCH.select(["id"]))
    assert not list(tmp_path.iterdir())
    with pass_writers(paths, BATCH.schema):
        pass
    assert [pq.read_metadata(path).num_rows for path in paths] == [0, 0]


def test_columns_that_a_batch_lacks_are_null() -> None:
    made = fitted(BATCH, document_schema(["url"]))
    assert made.schema.names[:2] == ["doc", "id"] and made.schema.names[-1] == "url"
    assert made.column("url").null_count == made.column("text").null_count == 3
    assert made.column("id").to_pylist() == ["a", "b", "c"]


def test_documents_are_taken_out_by_number() -> None:
    assert without(BATCH, np.array([7])) is BATCH
    assert without(BATCH, np.array([0, 2])).column("id").to_pylist() == ["b"]
