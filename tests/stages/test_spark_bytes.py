"""A recipe on a real Spark cluster gives the bytes that this machine gives, whatever the cluster goes through."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.engine.spark import SparkEngine
from spark_cluster import SparkCluster, executors_of

Run = Callable[..., Path]
Read = Callable[[Path], dict[str, Any]]

MIX = {"weights": {f"{i}": weight for i, weight in enumerate((0.3, 0.1, 0.1, 0.2, 0.2, 0.1))}, "target": 120}


def test_every_query_and_job_on_the_cluster_gives_the_same_bytes(
    run: Run, read: Read, whole: dict[str, Any], spark: Any
) -> None:
    assert len([name for name in whole if name.endswith(".bin")]) > 5
    assert read(run("out", engine=SparkEngine(spark, small_query=0))) == whole


def test_a_compressed_shuffled_mix_gives_the_same_bytes(run: Run, read: Read, spark: Any) -> None:
    options = {"mix": MIX, "shuffle": True, "store": {"compression": "zstd", "tokens_per_shard": 20_000}}
    assert read(run("spark", engine=SparkEngine(spark), **options)) == read(run("here", **options))


class Disturbed(SparkEngine):
    """Does something to the cluster while the n-th map is under way."""

    def __init__(self, session: Any, at: int, disturb: Callable[[], None]) -> None:
        super().__init__(session)
        self._maps, self._at, self._disturb = 0, at, disturb

    def map(self, function: Callable[..., Any], parts: Any) -> Iterator[Any]:
        self._maps += 1
        if self._maps == self._at:
            threading.Timer(0.2, self._disturb).start()
        return super().map(function, parts)


@pytest.mark.parametrize("at", [1, 12])
def test_an_executor_that_is_killed_changes_no_byte(
    run: Run, read: Read, whole: dict[str, Any], spark: Any, at: int
) -> None:
    killed: list[int] = []

    def kill() -> None:
        killed.extend(executors_of(spark)[:1])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    assert read(run("out", engine=Disturbed(spark, at, kill))) == whole
    assert killed


ALONE = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def test_a_driver_that_is_killed_goes_on_when_it_runs_again(
    read: Read, whole: dict[str, Any], spark_cluster: SparkCluster, recipe_file: Path
) -> None:
    out, work = recipe_file.with_name("out"), recipe_file.with_name("work")
    command = [Path(sys.executable).with_name("gristmill"), "prepare", "--recipe", recipe_file, "--work", work,
               "--engine", "spark", "--master", spark_cluster.address]  # fmt: skip
    driver = subprocess.Popen(command, env=ALONE, start_new_session=True, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while not list(work.glob("curate/*.json")) and time.monotonic() < until and driver.poll() is None:
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert list(work.glob("curate/*.json")) and not (out / "manifest.json").exists()
    again = subprocess.run(command, env=ALONE, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert read(out) == whole


CONNECT = """
import sys
from pyspark.sql import SparkSession
from gristmill.engine.spark import SparkEngine
from gristmill.run import prepare

session = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "7").getOrCreate()
prepare(sys.argv[1], engine=SparkEngine(session, small_query=0), progress=False)
session.stop()
"""


def test_spark_connect_gives_the_same_bytes(read: Read, whole: dict[str, Any], recipe_file: Path) -> None:
    made = subprocess.run([sys.executable, "-c", CONNECT, recipe_file], env=ALONE, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    assert read(recipe_file.with_name("out")) == whole


SPECULATING = """
import functools, os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from gristmill.engine.spark import SparkEngine
from gristmill.run import prepare

def late(function, place, numbered):
    "Do a part; the first attempt at one of them then lingers, so that another is begun and ends before it."
    number, part = numbered
    answer = function(part)
    try:
        if number == 0:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL))
            time.sleep(60)
    except FileExistsError:
        Path(place).write_text("a second attempt")
    return answer

class Late(SparkEngine):
    "Of a map with four parts or more, which Spark can compare with each other, the first part is late."
    maps = 0
    def map(self, function, parts):
        self.maps += 1
        if len(parts) < 4:
            return super().map(function, parts)
        place = os.path.join(sys.argv[3], str(self.maps))
        return super().map(functools.partial(late, function, place), list(enumerate(parts)))

builder = SparkSession.builder.master(sys.argv[2]).config(map={
    "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "100ms", "spark.cores.max": "2",
    "spark.executor.cores": "1", "spark.executor.memory": "512m",
})
prepare(sys.argv[1], engine=Late(builder.getOrCreate()), progress=False)
"""


def test_tasks_that_run_twice_at_once_change_no_byte(
    read: Read, whole: dict[str, Any], spark_cluster: SparkCluster, recipe_file: Path, tmp_path: Path
) -> None:
    attempts = tmp_path / "attempts"
    attempts.mkdir()
    command = [sys.executable, "-c", SPECULATING, recipe_file, spark_cluster.address, attempts]
    made = subprocess.run(command, env=ALONE, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    assert read(recipe_file.with_name("out")) == whole
    assert any(attempt.read_text() for attempt in attempts.iterdir())
