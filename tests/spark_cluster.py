"""A real Spark cluster on this machine, for tests: a standalone master and two workers of two cores, ended by pid."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_START_SECONDS = 300
_WORKERS = 2
# Of every Java that tests start here, in processes of their own too.
os.environ["SPARK_CONF_DIR"] = str(Path(__file__).with_name("spark_conf"))


class SparkCluster:
    """Master and workers whose files are in `folder`, at loopback addresses alone; `stop` it."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._home, self._folder = Path(pyspark.__file__).parent, folder
        self._log = folder / "master.log"
        self._processes = [self._started("master", "Master", "127.0.0.1", "--port", "0", "--webui-port", "0")]
        self.address = self._read_address()
        for number in range(_WORKERS):
            room = ("--cores", "2", "--memory", "2g", "--work-dir", str(folder / f"worker-{number}"))
            host = f"127.0.0.{2 + number}"  # of its own: Spark begins a second attempt at a task on another host only
            flags = (*room, "--webui-port", "0", self.address)
            self._processes.append(self._started(f"worker-{number}", "Worker", host, *flags))
        self._until(lambda: self._log.read_text().count("Registering worker") >= _WORKERS, "its workers did not come")

    def _started(self, name: str, kind: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
        scratch = self._folder / f"{name}-scratch"  # of its own, as on a machine of its own
        scratch.mkdir()
        environment = {**os.environ, "SPARK_HOME": str(self._home), "SPARK_LOCAL_IP": host,
                       "SPARK_DAEMON_MEMORY": "256m", "TMPDIR": str(scratch)}  # fmt: skip
        command = [self._home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}", "--host",
                   host, *arguments]  # fmt: skip
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def _read_address(self) -> str:
        self._until(lambda: "Starting Spark master at" in self._log.read_text(), "it did not start")
        found = re.search(r"Starting Spark master at (spark://[\d.:]+)", self._log.read_text())
        assert found
        return found[1]

    def _until(self, there: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _START_SECONDS
        while not there():
            if time.monotonic() > until or any(process.poll() is not None for process in self._processes):
                self.stop()
                raise RuntimeError(f"the Spark cluster: {what}: {self._log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def executors_of(session: Any) -> list[int]:
    """The pids of the executors that work for a session."""
    name = f"CoarseGrainedExecutorBackend.*--app-id {session.sparkContext.applicationId}"
    return [int(pid) for pid in subprocess.run(["pgrep", "-f", name], capture_output=True).stdout.split()]


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path_factory.mktemp("spark"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def spark(spark_cluster: SparkCluster) -> Iterator[Any]:
    """A classic session at the cluster; a process has one, so all tests of it share this."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.master(spark_cluster.address).appName("tests")
    half = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "7"}  # of 200, most would be empty  # fmt: skip
    session = builder.config(map={**local, **half}).getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.stop()


def needs_cluster(item: pytest.Item) -> bool:
    """Whether a test asks for the cluster, by name or as one engine of several."""
    return "spark_cluster" in getattr(item, "fixturenames", ()) or "[spark]" in item.nodeid
