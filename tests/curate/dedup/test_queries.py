"""Pieces of SQL that wide passes share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.curate.dedup.queries import alive


def test_documents_that_are_gone_are_left_out_where_there_are_any(engine: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc": [1, 2, 3], "n": [4, 5, 6]}), tmp_path / "all.parquet")
    pq.write_table(pa.table({"doc": [2, 9]}), tmp_path / "gone.parquet")
    tables = {"documents": [tmp_path / "all.parquet"], "dropped": [tmp_path / "gone.parquet"]}
    for dropped, left in ((False, [4, 5, 6]), (True, [4, 6])):
        sql = f"SELECT n FROM {alive('documents', 'doc, n', dropped)} AS alive ORDER BY n"
        (found,) = engine.query(sql, tables, tmp_path / f"{dropped}.parquet")
        assert pq.read_table(found)["n"].to_pylist() == left
