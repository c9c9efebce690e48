"""Tables that lie elsewhere: of each the columns that a statement may read, and no others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.curate.dedup.exact import REPEATED_IDS, equal_documents
from gristmill.engine.tables import brought, columns_of, groups_of, schema_of
from gristmill.stages.account import named_duplicates
from gristmill.stages.relation import document_schema

DOCUMENTS = document_schema(["url"]).names


@pytest.mark.parametrize("sql", [REPEATED_IDS, equal_documents(True), named_duplicates(["exact", "near"])])
def test_no_query_over_documents_reads_their_texts(sql: str) -> None:
    columns = columns_of(sql, DOCUMENTS)
    assert "doc" in columns and not {"text", "url", "content_hash", "edits"} & set(columns)


def test_a_star_takes_all_columns_but_not_one_that_counts() -> None:
    assert columns_of("SELECT * FROM documents", DOCUMENTS) == DOCUMENTS
    assert columns_of("SELECT a.* FROM documents AS a", DOCUMENTS) == DOCUMENTS
    assert columns_of("SELECT doc, COUNT(*) AS n FROM documents GROUP BY doc", DOCUMENTS) == ["doc"]
    assert columns_of("SELECT COUNT(*) AS n FROM documents", DOCUMENTS) == ["doc"]  # rows have to be counted


def test_a_file_is_read_by_row_groups_and_one_without_rows_has_its_columns(tmp_path: Path) -> None:
    table = pa.table({"doc": [1, 2, 3], "id": ["a", "b", "c"], "text": ["x"] * 3})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    sql = "SELECT id, doc FROM t"
    assert [group.to_pydict() for group in groups_of(tmp_path / "a.parquet", sql)] == [
        {"doc": [1, 2], "id": ["a", "b"]}, {"doc": [3], "id": ["c"]}
    ]  # fmt: skip
    assert [group.to_pydict() for group in groups_of(tmp_path / "none.parquet", sql)] == [{"doc": [], "id": []}]
    assert schema_of(tmp_path / "a.parquet", sql).names == ["doc", "id"]


def test_what_lies_here_is_read_where_it_lies(tmp_path: Path) -> None:
    assert brought("SELECT 1", {"t": [tmp_path / "a.parquet"]}, tmp_path) == {"t": [tmp_path / "a.parquet"]}
    assert list(tmp_path.iterdir()) == []
