"""How many rows of a Parquet file are read at once: few where its pages, or the values they name, are large."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import SourceError
from gristmill.sources import parquet_pages
from gristmill.sources.base import InputFile
from gristmill.sources.parquet_pages import rows_at_once


def at_once(path: Path, table: pa.Table, most: int = 1000, **options: object) -> int:
    pq.write_table(table, path, compression="none", **options)
    with pq.ParquetFile(path) as file, pa.OSFile(str(path)) as source:
        group = file.metadata.row_group(0)
        chunks = [group.column(i) for i in range(group.num_columns)]
        return rows_at_once(source, chunks, group.num_rows, InputFile("web", path, path.name), most)


def test_small_rows_are_read_as_many_as_may_be(tmp_path: Path) -> None:
    assert at_once(tmp_path / "a.parquet", pa.table({"text": ["short"] * 5000})) == 1000


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_large_pages_and_values_of_a_dictionary_mean_fewer_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(parquet_pages, "_MOST_BYTES", 100_000)
    table = pa.table({"text": [f"{row}" * 5_000 for row in range(100)]})
    pages = {"data_page_size": 4096, "write_batch_size": 1, "data_page_version": version}
    plain = at_once(tmp_path / "a.parquet", table, use_dictionary=False, **pages)
    assert 1 <= plain <= 20
    named = at_once(tmp_path / "b.parquet", pa.table({"text": ["x" * 50_000] * 100}), data_page_version=version)
    assert named <= 2


def test_a_page_that_cannot_be_held_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_pages, "MAX_PAGE_BYTES", 1000)
    with pytest.raises(SourceError, match="has a page of 0 MiB in column 'text'"):
        at_once(tmp_path / "a.parquet", pa.table({"text": ["x" * 2000]}))
