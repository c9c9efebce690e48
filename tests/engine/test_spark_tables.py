"""Rows that Spark's own tasks read and write through the door: in order, in whole row groups, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import EngineError
from gristmill.engine import spark_tables
from gristmill.engine.spark import spark_errors
from gristmill.engine.spark_tables import _groups, frame_of, nothing_guessed, written


def batches(*sizes: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"doc": list(range(size))}) for size in sizes]


def test_row_groups_are_filled_from_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tables, "_GROUP_ROWS", 10)
    assert [len(table) for table in _groups(batches(4, 0, 4, 4, 25, 1))] == [12, 25, 1]
    assert list(_groups(batches(0, 0))) == []


def test_rows_of_many_files_are_written_in_order_and_what_others_left_is_removed(spark: Any, tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.parquet" for i in range(8)]
    for i, file in enumerate(files):
        columns = {"doc": [*range(i, 8000, 8)], "id": pa.array(["x"] * 1000, pa.large_string()), "text": ["y"] * 1000}
        pq.write_table(pa.table(columns), file)
    out = tmp_path / "found" / "00000003.parquet"
    out.parent.mkdir()
    left, beside = (out.with_name(f"{name}-{'0' * 16}.parquet") for name in ("00000003-00001", "00000004-00001"))
    left.touch()
    beside.touch()
    rows = frame_of(spark, files, "SELECT doc, id FROM t")
    assert rows.columns == ["doc", "id"]
    found = written(rows.repartition(3).sort("doc"), out)
    assert pq.read_table(found)["doc"].to_pylist() == [*range(8000)]
    assert sorted(out.parent.iterdir()) == sorted([*found, beside])


def test_no_rows_are_a_file_with_their_columns(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc": [1], "near": [0.5]}), tmp_path / "a.parquet")
    rows = frame_of(spark, [tmp_path / "a.parquet"], "SELECT * FROM t").where("doc > 1")
    (found,) = written(rows, tmp_path / "out.parquet")
    assert pq.read_schema(found).remove_metadata() == pa.schema([("doc", pa.int64()), ("near", pa.float64())])


def test_a_file_that_cannot_be_read_is_told_by_name(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc": [1]}), tmp_path / "a.parquet")
    rows = frame_of(spark, [tmp_path / "a.parquet"], "SELECT doc FROM t")
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(EngineError, match=r"a\.parquet cannot be read \(No such file"), spark_errors("a query"):
        rows.collect()


def test_only_what_was_measured_is_sent_to_all_and_settings_come_back(spark: Any) -> None:
    guessed, measured = "spark.sql.autoBroadcastJoinThreshold", "spark.sql.adaptive.autoBroadcastJoinThreshold"
    before = spark.conf.get(guessed)
    with nothing_guessed(spark):
        assert (spark.conf.get(guessed), spark.conf.get(measured)) == ("-1", before)
    assert (spark.conf.get(guessed), spark.conf.get(measured, None)) == (before, None)
