"""Rows in several files: those of a unit are looked for where they can be."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.stages.relation import Footer, Relation, docs_of_unit, first_doc, footer


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
