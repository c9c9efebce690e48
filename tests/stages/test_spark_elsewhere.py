"""A recipe on a real Spark cluster whose nodes share no disk: inputs, work and store are addresses of one bucket."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gristmill.adapters.spark import write_store
from gristmill.engine import spark_tables
from gristmill.engine.spark import SparkEngine
from gristmill.places.door import place_at
from gristmill.places.folders import LOCK
from gristmill.recipe import SourceOptions
from gristmill.run import prepare
from gristmill.stages.folders import is_work
from spark_again import LOST, Again, Troubled, Turning

Run = Callable[..., Path]
Read = Callable[[Path], dict[str, Any]]
MIX = {"weights": {f"{i}": weight for i, weight in enumerate((0.3, 0.1, 0.1, 0.2, 0.2, 0.1))}, "target": 120}


@pytest.fixture
def bucket(proxy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address below which nothing lies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield (where := f"s3://corpus/spark/{tmp_path.name}")
    proxy.begin()
    type(place_at(where)).remove_all([f"{where}/{name}" for name in names_in(where)])


def names_in(where: str) -> list[str]:
    return [f"{folder}/{name}".removeprefix(f"{where}/")
            for folder, names in place_at(where).walk(links=False) for name in names]  # fmt: skip


def fetched(where: str, to: Path) -> Path:
    """A store as it is read on disk."""
    for name in names_in(where):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(place_at(f"{where}/{name}").read())
    return to


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files name what was in trouble."""
    (tmp_path / "lost").mkdir()
    monkeypatch.setenv(LOST, str(tmp_path / "lost"))
    return tmp_path / "lost"


@pytest.fixture
def turning(spark: Any) -> Iterator[Turning]:
    """Has queries answered by 1 part of Spark, then by 7, then by 30, and so on."""
    kept = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    engine = Turning(spark, small_query=0)
    engine.most = 30
    yield engine
    assert spark.conf.get("spark.sql.autoBroadcastJoinThreshold") == kept


def prepared(engine: SparkEngine, bucket: str, recipe_file: Path, more: Any, run: dict[str, str]) -> str:
    """The store that an engine makes of the corpus, all of whose files are in the bucket."""
    recipe = {**json.loads(recipe_file.read_text()), "out": f"{bucket}/store", **more}
    for source in recipe["sources"]:
        (path,) = map(Path, source["paths"])
        place_at(f"{bucket}/raw/{path.name}").write(path.read_bytes())
        source["paths"] = [f"{bucket}/raw/{path.name}"]
    prepare(recipe, engine=engine, progress=False, options=run)
    out: str = recipe["out"]
    return out


def test_the_whole_recipe_gives_the_same_bytes_whatever_parts_queries_have(
    run: Run, read: Read, recipe_file: Path, corpus: Path, bucket: str, turning: Turning, tmp_path: Path
) -> None:
    with (corpus / "3.jsonl").open() as rows:
        place_at(f"{bucket}/evaluation.txt").write(json.loads(next(rows))["text"])
    more = {"decontaminate": {"paths": [f"{bucket}/evaluation.txt"]}, "mix": MIX, "shuffle": True}
    store = prepared(turning, bucket, recipe_file, more, {"work": f"{bucket}/work"})
    assert read(fetched(store, tmp_path / "there")) == read(run("here", **more))
    work = names_in(f"{bucket}/work")
    assert [name for name in work if not is_work(name)] == ["gristmill-unfinished.json"]
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size] == []


def test_lost_workers_and_executors_and_rows_written_twice_change_no_byte_and_leave_nothing(
    read: Read, whole: Any, recipe_file: Path, bucket: str, spark: Any, lost: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(spark_tables, "_Writing", Again)
    engine = Troubled(spark, small_query=0)
    engine.places = lost
    store = prepared(engine, bucket, recipe_file, {}, {"work": f"{bucket}/work"})
    assert read(fetched(store, tmp_path / "there")) == whole
    assert {"CurateJob", "ShardJob", "TokensJob", "exact", "evidence"} <= {place.name for place in lost.iterdir()}
    work = names_in(f"{bucket}/work")
    markers = [json.loads(place_at(f"{bucket}/work/{name}").read()) for name in work if name.endswith(".json")]
    named = {file[0] for marker in markers for file in marker.get("facts", {}).get("files", ())}
    assert named and {name.rpartition("/")[2] for name in work if name.count("-") >= 2} <= named


def test_without_a_work_folder_the_bucket_of_the_store_has_it_and_the_driver_answers_small_queries(
    run: Run, read: Read, recipe_file: Path, bucket: str, spark: Any, tmp_path: Path, soak: bool
) -> None:
    fewer: dict[str, Any] = {} if soak else {"dedup": ["exact"]}
    store = prepared(SparkEngine(spark, small_query=1 << 30), bucket, recipe_file, fewer, {})
    assert read(fetched(store, tmp_path / "there")) == read(run("here", **fewer))
    assert list(place_at(f"{store}/.work").walk(links=False)) == []
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size] == []


def test_an_index_of_near_duplicates_is_saved_in_a_bucket_and_compared_with_there(
    run: Run, read: Read, recipe_file: Path, bucket: str, spark: Any, turning: Turning, tmp_path: Path
) -> None:
    sources = json.loads(recipe_file.read_text())["sources"]
    saving: dict[str, Any] = {"sources": sources[:3], "dedup": ["near"]}
    comparing: dict[str, Any] = {"sources": sources[3:], "dedup": [{"near": {"index": f"{bucket}/index"}}]}
    driver = SparkEngine(spark, small_query=1 << 30)
    store = prepared(driver, bucket, recipe_file, saving, {"save_index": f"{bucket}/index"})
    again = prepared(turning, bucket, recipe_file, {**comparing, "out": f"{bucket}/again"}, {})
    for options in (saving, comparing):  # which name the bucket's files by now
        options["sources"] = [SourceOptions(**source) for source in options["sources"]]
    assert read(fetched(store, tmp_path / "there")) == read(
        run("here", **saving, run={"save_index": str(tmp_path / "index")})
    )
    index = {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir() if path.name != LOCK}
    assert {name: place_at(f"{bucket}/index/{name}").read() for name in names_in(f"{bucket}/index")} == index
    here = run("again", **comparing)
    assert read(fetched(again, tmp_path / "there-again")) == read(here)
    details = [row["detail"] for row in pq.read_table(here / "dropped.parquet").to_pylist()]
    assert any(detail and detail[:2] in ("0/", "1/", "2/") for detail in details)  # which the index has


def test_a_data_frame_becomes_the_same_store_in_a_bucket(read: Read, bucket: str, spark: Any, tmp_path: Path) -> None:
    rows = [(f"{i}", f"Some text of row {i}, in words. " * 40) for i in range(300)]
    df = spark.createDataFrame(rows, ["id", "text"])
    for out in (f"{bucket}/store", tmp_path / "here"):
        write_store(df, out, tokenizer="byte", text_col="text", id_col="id", progress=False)
    there, here = read(fetched(f"{bucket}/store", tmp_path / "there")), read(tmp_path / "here")
    assert there == here and any(name.endswith(".bin") for name in here)
