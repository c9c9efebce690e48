"""Sessions of Spark: what would take a minute to fail is refused at once, in a sentence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import ConfigError, EngineError
from gristmill.engine.spark import SparkEngine
from gristmill.engine.spark_session import make_session, told
from gristmill.run import RunOptions, prepare
from spark_cluster import SparkCluster


@pytest.fixture
def nobody() -> int:
    """A port at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def test_an_address_at_which_nobody_answers_is_refused(nobody: int) -> None:
    with pytest.raises(EngineError, match=rf"Nobody answers at spark://127.0.0.1:{nobody} .*: is Spark running there"):
        make_session(f"spark://127.0.0.1:{nobody}", None, 2)
    with pytest.raises(EngineError, match=rf"Nobody answers at sc://127.0.0.1:{nobody}"):
        make_session(None, f"sc://127.0.0.1:{nobody}", 2)


def test_a_remote_is_an_address_of_spark_connect() -> None:
    with pytest.raises(ConfigError, match=r"remote= is sc://HOST:PORT of a Spark Connect server, not 'spark://a:1'"):
        make_session(None, "spark://a:1", 2)


def test_a_machine_without_java_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match=r"Spark needs Java \d+ or later, and there is none on the PATH: apt-get"):
        make_session(None, None, 2)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ConfigError, match=r"JAVA_HOME=/nowhere has none"):
        make_session(None, None, 2)


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for said, version in (("1.7.0_80", 7), ("7", 7)):
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{said}\"' >&2\n")
        java.chmod(0o755)
        with pytest.raises(ConfigError, match=rf"Spark needs Java \d+ or later, and .*bin/java is Java {version}: "):
            make_session(None, None, 2)


def test_a_master_that_spark_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"master= is spark://HOST:PORT, yarn, .* not 'http://a:8080'"):
        make_session("http://a:8080", None, 2)


def test_a_run_has_one_address_and_only_with_spark() -> None:
    with pytest.raises(ConfigError, match=r'master= is for engine="spark"'):
        RunOptions(master="spark://a:1")
    with pytest.raises(ConfigError, match=r"Give master= or remote= \(Spark Connect\), not both"):
        RunOptions(engine="spark", master="spark://a:1", remote="sc://a")


def test_what_spark_says_is_cut_down_to_what_it_says() -> None:
    long = (
        "An error occurred while calling o4.x.\n: org.apache.spark.SparkException: Job 3 failed.\n\tat a.b.c(D.scala:1)"
    )
    assert told(RuntimeError(long)) == "Job 3 failed."
    assert told(RuntimeError("one line\nanother")) == "one line"
    assert told(RuntimeError()) == "RuntimeError"


def test_an_output_that_cannot_be_written_is_told_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # which would be refused next
    (tmp_path / "a.txt").write_text("Some text.")
    recipe = {"out": str(tmp_path / "a.txt" / "out"), "sources": [{"name": "a", "paths": [str(tmp_path / "a.txt")]}],
              "tokenizer": "byte"}  # fmt: skip
    with pytest.raises(EngineError, match=r"a\.txt/out cannot be written \(Not a directory\): choose another place"):
        prepare(recipe, engine="spark", progress=False)


IMPATIENT = """
import sys
from gristmill.core.errors import EngineError
from gristmill.engine import spark_session

spark_session._ROOM = float(sys.argv[2])
try:
    print(spark_session.make_session(sys.argv[1], None, 2).range(3).count(), "rows")
except EngineError as error:
    print(error)
"""


def said_by_an_impatient_run(master: str, executor_memory: str, seconds: float) -> str:
    asked = f"--executor-memory {executor_memory} --total-executor-cores 1 pyspark-shell"
    more = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": asked}
    command = [sys.executable, "-c", IMPATIENT, master, str(seconds)]
    return subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True).stdout


def test_a_master_that_has_no_room_for_the_run_says_so_instead_of_waiting(spark_cluster: SparkCluster) -> None:
    said = said_by_an_impatient_run(spark_cluster.address, "100g", 0.2)
    assert said.startswith(f"Spark at {spark_cluster.address} gave no executor in 0.2 seconds: all of its workers")


def test_executors_that_take_long_to_start_are_waited_for(spark_cluster: SparkCluster) -> None:
    # Which the master gives at once, but whose Python takes longer than this to start.
    assert said_by_an_impatient_run(spark_cluster.address, "512m", 1.0) == "3 rows\n"


ABSENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "gristmill":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def test_executors_without_the_package_end_the_run_with_one_sentence_and_no_store(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(ABSENT)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "a.txt").write_text("Some text for nobody.")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    recipe = {"out": str(tmp_path / "out"), "sources": [{"name": "a", "paths": [str(tmp_path / "a.txt")]}],
              "tokenizer": "byte"}  # fmt: skip
    with pytest.raises(EngineError, match="have no gristmill: install gristmill on every node") as told:
        prepare(recipe, engine=SparkEngine(spark), progress=False)
    assert "\n" not in str(told.value) and not (tmp_path / "out" / "manifest.json").exists()
