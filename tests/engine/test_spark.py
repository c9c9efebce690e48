"""Spark, on a real cluster: results in order, errors as they were raised, lost workers replaced, nothing left."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import EngineError, SourceError
from gristmill.engine.spark import SparkEngine, _waves, _with_tables
from gristmill.run import prepare


@pytest.fixture
def engine(spark: Any) -> SparkEngine:
    return SparkEngine(spark, small_query=0)


def test_waves_grow_and_hold_every_part_once() -> None:
    waves = [len(wave) for wave in _waves(range(5000), 4)]
    assert waves[:3] == [4, 8, 16] and max(waves) == 1024 and sum(waves) == 5000


def test_tables_of_a_query_are_views_that_nobody_else_has() -> None:
    assert _with_tables("SELECT 1 FROM a", {"a": "x"}) == "WITH a AS (SELECT * FROM x) SELECT 1 FROM a"
    nested = _with_tables("WITH b AS (SELECT 1 FROM a) SELECT 1 FROM b", {"a": "x"})
    assert nested == "WITH a AS (SELECT * FROM x), b AS (SELECT 1 FROM a) SELECT 1 FROM b"


def test_an_error_of_ours_keeps_its_kind_and_its_sentence(engine: SparkEngine) -> None:
    def refuse(name: str) -> None:
        raise SourceError(f"{name} has no text.", "Give it some.")

    with pytest.raises(SourceError, match=r"a\.txt has no text\. Give it some\."):
        list(engine.map(refuse, ["a.txt", "b.txt"]))


def test_any_other_error_says_what_was_raised_and_where(engine: SparkEngine) -> None:
    with pytest.raises(EngineError, match=r"ValueError: factorial\(\) not defined for negative values \(.*tasks\.py"):
        list(engine.map(math.factorial, [1, -1]))


def test_a_worker_that_dies_is_replaced_and_its_part_done_again(engine: SparkEngine, tmp_path: Path) -> None:
    def die_once(path: str) -> int:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return os.getpid()
        os._exit(1)

    assert len({*engine.map(die_once, [str(tmp_path / f"{i}") for i in range(3)])}) >= 1
    assert len(list(tmp_path.iterdir())) == 3


def test_a_worker_that_always_dies_is_one_sentence(engine: SparkEngine) -> None:
    with pytest.raises(EngineError, match=r"^Spark gave up jobs: Python worker exited unexpectedly"):
        list(engine.map(os._exit, [1]))


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Some text.")
    recipe = {"out": "/proc/store", "sources": [{"name": "a", "paths": [str(tmp_path / "a.txt")]}], "tokenizer": "byte"}
    with pytest.raises((OSError, EngineError), match="/proc/store"):
        prepare(recipe, engine=SparkEngine(spark), progress=False)


def test_whoever_goes_early_leaves_no_job_behind(engine: SparkEngine, spark: Any) -> None:
    results = engine.map(time.sleep, [0.0] * 4 + [60.0] * 20)
    next(results)
    results.close()
    until, tracker = time.monotonic() + 30, spark.sparkContext.statusTracker()
    while tracker.getActiveJobsIds() and time.monotonic() < until:
        time.sleep(0.1)
    assert not tracker.getActiveJobsIds()


def test_a_query_that_finds_nothing_gives_a_file_with_its_columns(engine: SparkEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "a.parquet")
    (found,) = engine.query(
        "SELECT b, a FROM t WHERE a > 5 ORDER BY a", {"t": [tmp_path / "a.parquet"]}, tmp_path / "o.parquet"
    )
    assert pq.read_table(found).to_pydict() == {"b": [], "a": []}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", found.name]


def test_rows_of_many_files_come_back_in_order_in_several(engine: SparkEngine, tmp_path: Path, spark: Any) -> None:
    files = [tmp_path / f"{i}.parquet" for i in range(8)]
    for i, file in enumerate(files):
        pq.write_table(pa.table({"doc": [*range(i, 80_000, 8)], "text": ["x" * 100] * 10_000}), file)
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        found = engine.query("SELECT doc, text FROM t ORDER BY doc DESC", {"t": files}, tmp_path / "out.parquet")
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert len(found) > 1
    assert pq.read_table(found)["doc"].to_pylist() == [*range(79_999, -1, -1)]


def test_views_of_the_user_stay_as_they_are(engine: SparkEngine, tmp_path: Path, spark: Any) -> None:
    spark.range(3).createOrReplaceTempView("documents")
    pq.write_table(pa.table({"doc": [7]}), tmp_path / "a.parquet")
    engine.query(
        "SELECT doc FROM documents ORDER BY doc", {"documents": [tmp_path / "a.parquet"]}, tmp_path / "o.parquet"
    )
    assert spark.table("documents").count() == 3
    assert [table.name for table in spark.catalog.listTables() if table.name.startswith("gristmill")] == []


def test_relative_paths_begin_where_the_driver_works(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"doc": [7]}), "a.parquet")
    assert {*engine.map(os.path.abspath, ["a", "a"])} == {str(tmp_path / "a")}
    (found,) = engine.query("SELECT doc FROM t ORDER BY doc", {"t": [Path("a.parquet")]}, Path("o.parquet"))
    assert pq.read_table(tmp_path / found).to_pydict() == {"doc": [7]}


def test_a_small_query_is_answered_on_the_driver(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc": [7]}), tmp_path / "a.parquet")
    out = tmp_path / "o.parquet"
    assert SparkEngine(spark).query("SELECT doc FROM t ORDER BY doc", {"t": [tmp_path / "a.parquet"]}, out) == [out]
    assert json.dumps(pq.read_table(out).to_pydict()) == '{"doc": [7]}'
