"""Rows in several files: those of a unit are looked for where they can be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.stages.relation import (
    Footer,
    Relation,
    batches_of,
    docs_of_unit,
    document_schema,
    first_doc,
    fitted,
    footer,
    pass_writers,
    table_writer,
    without,
)


@pytest.fixture
def partitions(tmp_path: Path) -> list[Path]:
    """Documents 0 to 39 of each of three units, in four files and one that is empty."""
    docs = [first_doc(unit) + row for unit in range(3) for row in range(40)]
    parts = [docs[:30], docs[30:50], [], docs[50:100], docs[100:]]
    for number, part in enumerate(parts):
        table = pa.table({"doc": pa.array(part, pa.int64()), "kept": pa.array(part, pa.int64())})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=10)
    return [tmp_path / f"{number}.parquet" for number in range(5)]


def test_a_footer_tells_rows_and_range_of_documents(partitions: list[Path], tmp_path: Path) -> None:
    assert footer(partitions[1]) == Footer([10, 10], (30, first_doc(1) + 9))
    assert sum(footer(partitions[2]).groups) == 0 and footer(partitions[2]).docs == (0, -1)
    pq.write_table(pa.table({"n": [1]}), tmp_path / "other.parquet")
    assert footer(tmp_path / "other.parquet") == Footer([1], None)


def test_only_files_that_may_hold_a_unit_are_opened(partitions: list[Path]) -> None:
    every = Relation(tuple(partitions), "x")
    known = Relation(tuple(partitions), "x", 120, tuple(map(footer, partitions)))
    assert every.files_of(0) == partitions
    for unit, files in enumerate(([0, 1], [1, 3], [3, 4], [0])):
        assert known.files_of(unit) == [partitions[i] for i in files]
        assert known.rows_of(unit).equals(every.rows_of(unit)) and len(known.rows_of(unit)) == (40 if unit < 3 else 0)


def test_the_documents_of_several_relations_are_joined(partitions: list[Path]) -> None:
    first, second = (Relation((partitions[i],), "x") for i in (0, 1))
    assert docs_of_unit([second, first, first], 0).tolist() == list(range(40))
    assert docs_of_unit([], 0).tolist() == []


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
