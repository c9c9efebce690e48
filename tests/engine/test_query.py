"""Wide work: queries over Parquet files, the same from every engine, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import EngineError
from gristmill.engine.inline import InlineEngine
from gristmill.engine.local import LocalEngine

ROWS = 300_000
REPEATED = """
    WITH ranked AS (SELECT doc, hash, ROW_NUMBER() OVER (PARTITION BY hash ORDER BY doc) AS place FROM rows)
    SELECT doc, hash FROM ranked WHERE place > 1 ORDER BY doc
"""


@pytest.fixture(params=["inline", "local"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    scratch = tmp_path / "scratch"
    made = InlineEngine(1 << 30, scratch) if request.param == "inline" else LocalEngine(2, 1 << 30, scratch)
    yield made
    made.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """300,000 rows (doc, hash) in three files; each hash is there about three times."""
    folder, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    paths = [folder / f"{i}.parquet" for i in range(3)]
    for path, docs in zip(paths, np.split(np.arange(ROWS), 3), strict=True):
        pq.write_table(pa.table({"doc": docs, "hash": rng.integers(-(10**5) // 2, 10**5 // 2, len(docs))}), path)
    return paths


def _expected(files: list[Path]) -> list[int]:
    hashes = pq.read_table(files)["hash"].to_numpy()
    _, firsts = np.unique(hashes, return_index=True)
    return np.setdiff1d(np.arange(ROWS), firsts).tolist()


def test_rows_have_the_querys_order(engine: Any, files: list[Path], tmp_path: Path) -> None:
    engine.query(REPEATED, {"rows": files}, tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["doc"].to_pylist() == _expected(files)
    assert table.schema.types == [pa.int64(), pa.int64()]


def test_small_memory_spills_and_finds_the_same(files: list[Path], tmp_path: Path) -> None:
    tight = LocalEngine(2, 64 << 20, tmp_path / "scratch")
    tight.query(REPEATED, {"rows": files * 8}, tmp_path / "out.parquet")
    tight.close()
    docs = pq.read_table(tmp_path / "out.parquet")["doc"].to_numpy()
    # Eight copies of each row: all but one of the first, all of the others.
    assert len(docs) == 8 * ROWS - (ROWS - len(_expected(files)))
    assert np.all(np.diff(docs) >= 0)


def test_too_little_memory_is_said(files: list[Path], tmp_path: Path) -> None:
    tight = InlineEngine(64 << 20, tmp_path / "scratch")
    heavy = "SELECT LENGTH(STRING_AGG(REPEAT(CAST(hash AS VARCHAR), 1000), '')) AS size FROM rows"
    with pytest.raises(EngineError, match=r"64 MiB: give more memory="):
        tight.query(heavy, {"rows": files}, tmp_path / "out.parquet")
    tight.close()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


def test_failed_query_leaves_no_file_and_the_engine_usable(engine: Any, files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(duckdb.Error):
        engine.query("SELECT CAST('x' || doc AS BIGINT) AS n FROM rows", {"rows": files}, tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
    engine.query("SELECT COUNT(*) AS n FROM rows", {"rows": files[:1]}, tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["n"].to_pylist() == [ROWS // 3]


def test_tables_of_one_query_are_unknown_to_the_next(engine: Any, files: list[Path], tmp_path: Path) -> None:
    engine.query("SELECT doc FROM rows ORDER BY doc", {"rows": files}, tmp_path / "out.parquet")
    with pytest.raises(duckdb.CatalogException):
        engine.query("SELECT doc FROM rows", {"others": files}, tmp_path / "other.parquet")


def test_paths_with_quotes_and_blanks(engine: Any, tmp_path: Path) -> None:
    folder = tmp_path / "it's a [folder] * with ? marks"
    folder.mkdir()
    pq.write_table(pa.table({"doc": [1]}), folder / "in.parquet")
    engine.query("SELECT doc FROM rows", {"rows": [folder / "in.parquet"]}, folder / "out.parquet")
    assert pq.read_table(folder / "out.parquet")["doc"].to_pylist() == [1]


def test_empty_result_is_a_file_without_rows(engine: Any, files: list[Path], tmp_path: Path) -> None:
    engine.query("SELECT doc FROM rows WHERE doc < 0 ORDER BY doc", {"rows": files}, tmp_path / "out.parquet")
    assert pq.read_metadata(tmp_path / "out.parquet").num_rows == 0
