"""A recipe on a real Spark cluster gives the bytes that this machine gives, whatever the cluster goes through."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.progress import Quiet
from gristmill.engine.spark import SparkEngine
from gristmill.run import prepare
from gristmill.stages import resolve
from gristmill.stages.relation import Relation
from gristmill.stages.work import Workshop
from spark_again import Troubled, Turning
from spark_cluster import SparkCluster, executors_of

Run = Callable[..., Path]
Read = Callable[[Path], dict[str, Any]]

# What takes the fewest queries and is compared nonetheless: other tests have the others.
FEW: dict[str, Any] = {"dedup": ["exact"]}
MIX = {"weights": {f"{i}": weight for i, weight in enumerate((0.3, 0.1, 0.1, 0.2, 0.2, 0.1))}, "target": 120}


@pytest.fixture
def everything(tmp_path: Path, corpus: Path) -> Callable[[str], dict[str, Any]]:
    """All that a recipe can ask for beside filters and duplicates of all kinds, in 20 shards and more."""
    with (corpus / "3.jsonl").open() as rows:
        (tmp_path / "evaluation.txt").write_text(json.loads(next(rows))["text"])

    def made(compression: str) -> dict[str, Any]:
        store = {"compression": compression, "tokens_per_shard": 10_000, "val_fraction": 0.1}
        return {"decontaminate": {"paths": [str(tmp_path / "evaluation.txt")]}, "mix": MIX, "shuffle": True,
                "store": store}  # fmt: skip

    return made


def test_the_whole_recipe_gives_the_same_bytes_whatever_parts_queries_have(
    run: Run, read: Read, everything: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = read(run("here", **everything("none")))
    assert len([name for name in here if name.endswith(".bin")]) >= 20
    assert {"decontaminate", "mix", "lines", "near", "exact"} <= {
        row["stage"] for row in json.loads(here["funnel.json"])
    }
    monkeypatch.setattr(resolve, "EDGES_A_TASK", 2)  # rounds and clusters, as of a large corpus
    made = run("spark", engine=Turning(spark, small_query=0), **everything("none"))
    assert read(made) == here
    assert olmo_core_reads(json.loads((made / "run.json").read_text())["token_files"]["train"], made.with_name("olmo"))


def olmo_core_reads(files: list[str], work: Path) -> bool:
    """Whether OLMo-core's own config takes these token files as they are, and gives their tokens."""
    from olmo_core.data import NumpyDatasetDType, NumpyFSLDatasetConfig, TokenizerConfig

    length, tokenizer = 128, TokenizerConfig(vocab_size=257, eos_token_id=256, pad_token_id=256)
    config = NumpyFSLDatasetConfig(paths=files, sequence_length=length, dtype=NumpyDatasetDType.uint16,
                                   tokenizer=tokenizer, work_dir=str(work))  # fmt: skip
    dataset = config.build()
    dataset.prepare()
    tokens = [np.fromfile(file, np.uint16) for file in files]
    whole = np.concatenate([each[: len(each) // length * length] for each in tokens])
    return np.concatenate([dataset[i]["input_ids"] for i in range(len(dataset))]).tolist() == whole.tolist()


def test_a_compressed_store_of_the_whole_recipe_is_the_same(
    run: Run, read: Read, everything: Any, spark: Any, soak: bool
) -> None:
    options = {**everything("zstd"), **({} if soak else FEW)}
    assert read(run("spark", engine=SparkEngine(spark), **options)) == read(run("here", **options))


def test_a_chain_of_near_duplicates_is_settled_by_clusters_on_the_cluster(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "EDGES_A_TASK", 1)
    pq.write_table(pa.table({"earlier": [*range(5)], "later": [*range(1, 6)]}), tmp_path / "edges.parquet")
    edges = Relation((tmp_path / "edges.parquet",), "edges", 5)
    found = resolve.Resolution(Workshop(SparkEngine(spark, small_query=0), tmp_path / "work", Quiet()), edges)
    gone = [doc for table in found.gone() for doc in pq.read_table([*table.files])["doc"].to_pylist()]
    assert sorted(gone) == [1, 3, 5] and len(found._clusters) > 1


def test_workers_lost_after_publishing_and_a_killed_executor_change_no_byte(
    run: Run, read: Read, whole: dict[str, Any], spark: Any, tmp_path: Path
) -> None:
    before = set(executors_of(spark))
    engine = Troubled(spark)
    engine.places = tmp_path / "lost"
    engine.places.mkdir()
    made = run("out", engine=engine)
    assert read(made) == whole and not (made / ".work").exists()
    assert sorted(place.name for place in engine.places.glob("*Job")) == ["CurateJob", "ShardJob", "TokensJob"]
    assert not before <= set(executors_of(spark))


ALONE = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def wait_for_the_group(group: int) -> None:
    """Wait until what a process forked, which was killed with it, has ended too, and with it its locks."""
    until = time.monotonic() + 10
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.killpg(group, 0)
            time.sleep(0.01)


def test_a_driver_that_is_killed_goes_on_when_it_runs_again(
    read: Read, whole: dict[str, Any], spark_cluster: SparkCluster, spark: Any, recipe_file: Path
) -> None:
    out, work = recipe_file.with_name("out"), recipe_file.with_name("work")
    command = [sys.executable, "-m", "gristmill", "prepare", "--recipe", recipe_file, "--work", work,
               "--engine", "spark", "--master", spark_cluster.address]  # fmt: skip
    driver = subprocess.Popen(command, env=ALONE, start_new_session=True, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while not list(work.glob("curate/*.json")) and time.monotonic() < until and driver.poll() is None:
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    wait_for_the_group(driver.pid)
    assert list(work.glob("curate/*.json")) and not (out / "manifest.json").exists()
    prepare(recipe_file, engine=SparkEngine(spark), options={"work": str(work)}, progress=False)
    assert read(out) == whole


CONNECT = """
import sys
from pyspark.sql import SparkSession
from gristmill.engine.spark import SparkEngine
from gristmill.run import prepare

session = SparkSession.builder.remote(sys.argv[2]).config("spark.sql.shuffle.partitions", "7").getOrCreate()
prepare(sys.argv[1], engine=SparkEngine(session, small_query=0), progress=False)
session.stop()
"""


def test_spark_connect_gives_the_same_bytes(
    run: Run, read: Read, recipe_file: Path, spark_connect: str, soak: bool
) -> None:
    fewer: dict[str, Any] = {} if soak else {"dedup": ["exact", "lines"]}
    recipe_file.write_text(json.dumps({**json.loads(recipe_file.read_text()), **fewer}))
    command = [sys.executable, "-c", CONNECT, recipe_file, spark_connect]
    made = subprocess.run(command, env=ALONE, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    assert read(recipe_file.with_name("out")) == read(run("here", **fewer))


class Late(SparkEngine):
    """Of a map with four parts or more, which Spark can compare with each other, the first part is late."""

    maps, attempts = 0, Path()

    def map(self, function: Callable[..., Any], parts: Any) -> Any:
        self.maps += 1
        if len(parts) < 4:
            return super().map(function, parts)
        place = self.attempts / str(self.maps)

        # By value, since executors have no module of this name.
        def late(numbered: tuple[int, Any]) -> Any:
            """Do a part; the first attempt at one of them then lingers: another is begun, and ends before it."""
            number, part = numbered
            answer = function(part)
            try:
                if number == 0:
                    os.close(os.open(place, os.O_CREAT | os.O_EXCL))
                    time.sleep(60)
            except FileExistsError:
                Path(place).write_text("a second attempt")
            return answer

        return super().map(late, list(enumerate(parts)))


def test_tasks_that_run_twice_at_once_change_no_byte(
    run: Run, read: Read, whole: dict[str, Any], spark: Any, tmp_path: Path
) -> None:
    engine = Late(spark)
    engine.attempts = tmp_path / "attempts"
    engine.attempts.mkdir()
    assert read(run("out", engine=engine)) == whole
    assert any(attempt.read_text() for attempt in engine.attempts.iterdir())
