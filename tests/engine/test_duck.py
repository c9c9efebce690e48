"""Wide work: queries over Parquet files, the same on any number of threads, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import EngineError
from gristmill.engine.duck import Duck

REPEATED = """
    WITH ranked AS (SELECT doc, hash, ROW_NUMBER() OVER (PARTITION BY hash ORDER BY doc) AS place FROM rows)
    SELECT doc, hash FROM ranked WHERE place > 1 ORDER BY doc
"""


@pytest.fixture(params=[1, 2])
def duck(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Duck]:
    made = Duck(1 << 30, tmp_path / "scratch", request.param)
    yield made
    made.close()


def _expected(files: list[Path]) -> list[int]:
    hashes = pq.read_table(files)["hash"].to_numpy()
    _, firsts = np.unique(hashes, return_index=True)
    return np.setdiff1d(np.arange(len(hashes)), firsts).tolist()


def test_rows_have_the_querys_order(duck: Duck, files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert duck.query(REPEATED, {"rows": files}, out) == [out]
    table = pq.read_table(out)
    assert table["doc"].to_pylist() == _expected(files)
    assert table.schema.types == [pa.int64(), pa.int64()]


def test_small_memory_spills_and_finds_the_same(files: list[Path], tmp_path: Path) -> None:
    tight = Duck(64 << 20, tmp_path / "scratch", threads=2)
    tight.query(REPEATED, {"rows": files * 8}, tmp_path / "out.parquet")
    tight.close()
    docs = pq.read_table(tmp_path / "out.parquet")["doc"].to_numpy()
    # Eight copies of each row: all but one of the first, all of the others.
    assert len(docs) == 8 * 300_000 - (300_000 - len(_expected(files)))
    assert np.all(np.diff(docs) >= 0)


def test_too_little_memory_is_said(files: list[Path], tmp_path: Path) -> None:
    tight = Duck(64 << 20, tmp_path / "scratch", threads=1)
    heavy = "SELECT LENGTH(STRING_AGG(REPEAT(CAST(hash AS VARCHAR), 1000), '')) AS size FROM rows"
    with pytest.raises(EngineError, match=r"64 MiB: give more memory="):
        tight.query(heavy, {"rows": files}, tmp_path / "out.parquet")
    tight.close()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


def test_a_query_that_fails_leaves_no_file_and_the_connection_usable(
    duck: Duck, files: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(duckdb.Error):
        duck.query("SELECT CAST('x' || doc AS BIGINT) AS n FROM rows", {"rows": files}, tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
    duck.query("SELECT COUNT(*) AS n FROM rows", {"rows": files[:1]}, tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["n"].to_pylist() == [100_000]


def test_tables_of_one_query_are_unknown_to_the_next(duck: Duck, files: list[Path], tmp_path: Path) -> None:
    duck.query("SELECT doc FROM rows ORDER BY doc", {"rows": files}, tmp_path / "out.parquet")
    with pytest.raises(duckdb.CatalogException):
        duck.query("SELECT doc FROM rows", {"others": files}, tmp_path / "other.parquet")


def test_paths_with_quotes_and_blanks(duck: Duck, tmp_path: Path) -> None:
    folder = tmp_path / "it's a [folder] * with ? marks"
    folder.mkdir()
    pq.write_table(pa.table({"doc": [1]}), folder / "in.parquet")
    duck.query("SELECT doc FROM rows", {"rows": [folder / "in.parquet"]}, folder / "out.parquet")
    assert pq.read_table(folder / "out.parquet")["doc"].to_pylist() == [1]


def test_an_empty_result_is_a_file_without_rows(duck: Duck, files: list[Path], tmp_path: Path) -> None:
    (found,) = duck.query("SELECT doc FROM rows WHERE doc < 0 ORDER BY doc", {"rows": files}, tmp_path / "out.parquet")
    assert pq.read_metadata(found).num_rows == 0
