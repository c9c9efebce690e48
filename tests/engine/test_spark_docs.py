"""The blocks of docs/spark.md and docs/spark_streaming.md, run from first to last as a reader would.

Seven programs of theirs would start Java each: they are told of one that is there, as spark-submit tells its programs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from page_script import PATH, script

# Java has one Spark at a time, and would not end with the program that began it.
STOPPING = """
import atexit, sys

def stop():
    session = "pyspark.sql" in sys.modules and sys.modules["pyspark.sql"].SparkSession._instantiatedSession
    if session:
        session.stop()

atexit.register(stop)
"""


@dataclass(frozen=True)
class Reader:
    """Follows pages in a folder, with variables of its own."""

    folder: Path
    variables: dict[str, str]

    def follow(self, page: str) -> str:
        """What is printed to somebody who runs all blocks of a page."""
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script(page)], cwd=self.folder, capture_output=True,
                              text=True, env={**os.environ, "PATH": PATH, **self.variables})  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    from pyspark.java_gateway import launch_gateway

    folder, more = tmp_path_factory.mktemp("reader"), tmp_path_factory.mktemp("more")
    (more / "sitecustomize.py").write_text(STOPPING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PATH", PATH)
        patch.chdir(folder)  # relative paths begin where Java works
        java = launch_gateway()
    said = java.gateway_parameters
    yield Reader(folder, {
        "PYSPARK_GATEWAY_PORT": str(said.port), "PYSPARK_GATEWAY_SECRET": said.auth_token,
        "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": f"{more}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    })  # fmt: skip
    java.shutdown()
    java.proc.stdin.close()
    java.proc.wait()


def test_a_reader_who_follows_the_page_gets_the_same_bytes_from_spark(reader: Reader) -> None:
    printed = reader.follow("spark.md")
    assert "The same bytes." in printed and "shard-00000.bin" in printed
    assert "75 pages were kept." in printed


def test_a_reader_who_follows_the_page_trains_from_a_dataframe_and_goes_on(reader: Reader) -> None:
    printed = reader.follow("spark_streaming.md")
    assert [f"{step} (16, 128)" in printed for step in range(1, 7)] == [True] * 6
    assert "torch.Size([16, 128])" in printed
