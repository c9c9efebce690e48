"""A recipe on a real Spark cluster whose nodes share no disk: inputs, work and store are addresses of one bucket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gristmill.places.door import place_at
from gristmill.recipe import SourceOptions
from gristmill.stages.folders import is_work
from spark_cluster import SparkCluster

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


TESTS = str(Path(__file__).parents[1])
CODE = """
import itertools, json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
TESTS = sys.argv[5]
sys.path.append(TESTS)
from spark_again import LOST, Again, Troubled
from gristmill.adapters.spark import write_store
from gristmill.engine import spark_tables
from gristmill.engine.spark import SparkEngine
from gristmill.run import prepare

recipe, master, work, options = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])

class Turning(SparkEngine):
    "Has queries answered by 1 part of Spark, then by 7, then by 30, and so on."
    turns = itertools.cycle((1, 7, 30))
    def query(self, *given):
        self._session.conf.set("spark.sql.shuffle.partitions", next(self.turns))
        return super().query(*given)

keys = {f"spark.executorEnv.{name}": value for name, value in os.environ.items() if name.startswith("AWS_")}
session = SparkSession.builder.master(master).config(map={
    **keys, "spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "7", "spark.task.maxFailures": "20",
    "spark.executorEnv.PYTHONPATH": TESTS, f"spark.executorEnv.{LOST}": options.get("lost", ""),
}).getOrCreate()
session.sparkContext.setLogLevel("FATAL")
if "lost" in options:
    spark_tables._Writing = Again
    Troubled.places = Path(options["lost"])
kind = Troubled if "lost" in options else Turning
kept = session.conf.get("spark.sql.autoBroadcastJoinThreshold")
chosen = {"work": work} if work else {}
if "frame" in options:
    rows = [(f"{i}", f"Some text of row {i}, in words. " * 40) for i in range(300)]
    df = session.createDataFrame(rows, ["id", "text"])
    for out in (recipe["out"], options["frame"]):
        write_store(df, out, tokenizer="byte", text_col="text", id_col="id", progress=False)
elif "index" in options:
    (saving, chosen["save_index"]), comparing = options["index"], options["compared"]
    prepare({**recipe, **saving}, engine=SparkEngine(session), progress=False, options=chosen)
    prepare({**recipe, **comparing}, engine=SparkEngine(session, small_query=0), progress=False)
else:
    prepare(recipe, engine=kind(session, small_query=options["small"]), progress=False, options=chosen)
assert session.conf.get("spark.sql.autoBroadcastJoinThreshold") == kept
"""


def prepared(bucket: str, recipe_file: Path, cluster: SparkCluster, more: Any, work: str, **options: Any) -> str:
    """The store that a driver in a process of its own makes of the corpus, all of whose files are in the bucket."""
    recipe = {**json.loads(recipe_file.read_text()), "out": f"{bucket}/store", **more}
    for source in recipe["sources"]:
        (path,) = map(Path, source["paths"])
        place_at(f"{bucket}/raw/{path.name}").write(path.read_bytes())
        source["paths"] = [f"{bucket}/raw/{path.name}"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", CODE, json.dumps(recipe), cluster.address, work, json.dumps(options), TESTS]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=recipe_file.parent)
    assert made.returncode == 0, made.stderr[-5000:]
    return f"{bucket}/store"


def test_the_whole_recipe_gives_the_same_bytes_whatever_parts_queries_have(
    run: Run, read: Read, recipe_file: Path, corpus: Path, bucket: str, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    with (corpus / "3.jsonl").open() as rows:
        place_at(f"{bucket}/evaluation.txt").write(json.loads(next(rows))["text"])
    more = {"decontaminate": {"paths": [f"{bucket}/evaluation.txt"]}, "mix": MIX, "shuffle": True}
    store = prepared(bucket, recipe_file, spark_cluster, more, f"{bucket}/work", small=0)
    assert read(fetched(store, tmp_path / "there")) == read(run("here", **more))
    work = names_in(f"{bucket}/work")
    assert [name for name in work if not is_work(name)] == ["gristmill-unfinished.json"]
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size] == []


def test_lost_workers_and_executors_and_rows_written_twice_change_no_byte_and_leave_nothing(
    read: Read, whole: Any, recipe_file: Path, bucket: str, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    lost = tmp_path / "lost"
    lost.mkdir()
    store = prepared(bucket, recipe_file, spark_cluster, {}, f"{bucket}/work", small=0, lost=str(lost))
    assert read(fetched(store, tmp_path / "there")) == whole
    assert {"CurateJob", "ShardJob", "TokensJob", "exact", "evidence"} <= {place.name for place in lost.iterdir()}
    work = names_in(f"{bucket}/work")
    markers = [json.loads(place_at(f"{bucket}/work/{name}").read()) for name in work if name.endswith(".json")]
    named = {file[0] for marker in markers for file in marker.get("facts", {}).get("files", ())}
    assert named and {name.rpartition("/")[2] for name in work if name.count("-") >= 2} <= named


def test_without_a_work_folder_the_bucket_of_the_store_has_it_and_the_driver_answers_small_queries(
    read: Read, whole: Any, recipe_file: Path, bucket: str, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    store = prepared(bucket, recipe_file, spark_cluster, {}, "", small=1 << 30)
    assert read(fetched(store, tmp_path / "there")) == whole
    assert list(place_at(f"{store}/.work").walk(links=False)) == []
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size] == []


def test_an_index_of_near_duplicates_is_saved_in_a_bucket_and_compared_with_there(
    run: Run, read: Read, recipe_file: Path, corpus: Path, bucket: str, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    sources = json.loads(recipe_file.read_text())["sources"]
    for source in sources:
        source["paths"] = [f"{bucket}/raw/{Path(source['paths'][0]).name}"]
    saving: dict[str, Any] = {"sources": sources[:3], "dedup": ["near"]}
    comparing: dict[str, Any] = {"sources": sources[3:], "dedup": [{"near": {"index": f"{bucket}/index"}}]}
    store = prepared(bucket, recipe_file, spark_cluster, {}, "", index=[saving, f"{bucket}/index"],
                     compared={**comparing, "out": f"{bucket}/again"})  # fmt: skip
    for options in (saving, comparing):
        options["sources"] = [SourceOptions(**source) for source in options["sources"]]
    here = run("here", **saving, run={"save_index": str(tmp_path / "index")})
    assert read(fetched(store, tmp_path / "there")) == read(here)
    index = {path.name: path.read_bytes() for path in (tmp_path / "index").glob("[!.]*")}  # but for the lock
    assert {name: place_at(f"{bucket}/index/{name}").read() for name in names_in(f"{bucket}/index")} == index
    again = run("again", **comparing)
    assert read(fetched(f"{bucket}/again", tmp_path / "there-again")) == read(again)
    details = [row["detail"] for row in pq.read_table(again / "dropped.parquet").to_pylist()]
    assert any(detail and detail[:2] in ("0/", "1/", "2/") for detail in details)  # which the index has


def test_a_data_frame_becomes_the_same_store_in_a_bucket(
    read: Read, recipe_file: Path, bucket: str, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    store = prepared(bucket, recipe_file, spark_cluster, {}, "", frame=str(tmp_path / "here"))
    there, here = read(fetched(store, tmp_path / "there")), read(tmp_path / "here")
    assert there == here and any(name.endswith(".bin") for name in here)
