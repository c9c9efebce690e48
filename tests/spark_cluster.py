"""A real Spark cluster on this machine, for tests: a standalone master and two workers of two cores, ended by pid."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from breaking_proxy import Proxy
from s3_fixtures import variables

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
            room = ("--cores", "2", "--memory", "8g", "--work-dir", str(folder / f"worker-{number}"))
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


# A second attempt at a task is begun when it is late, and one that fails gets more attempts than usual: tests that end
# workers and executors, or keep them waiting, share the session of all others.
TROUBLES = {"spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.1",
            "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "4s",
            "spark.task.maxFailures": "6"}  # fmt: skip


@pytest.fixture(scope="session")
def spark(spark_cluster: SparkCluster, _proxy: Proxy) -> Iterator[Any]:
    """A classic session at the cluster; a process has one, so all tests of it share this.

    Its executors have the keys of the bucket, and room for a row of 200 MB; its driver is a Spark Connect server, too.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.master(spark_cluster.address).appName("tests")
    half = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "4g",
            "spark.sql.shuffle.partitions": "7"}  # of 200, most would be empty  # fmt: skip
    keys = {f"spark.executorEnv.{name}": value for name, value in variables(_proxy).items()}
    session = builder.config(map={**local, **half, **keys, **TROUBLES, **_connect()}).getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    session.sparkContext.addPyFile(str(Path(__file__).with_name("spark_again.py")))
    yield session
    session.stop()


def _connect() -> dict[str, str]:
    """Settings that make a driver a Spark Connect server; pyspark 3.5 has no jar of it."""
    import pyspark

    if not list(Path(pyspark.__file__).parent.glob("jars/spark-connect_*.jar")):
        return {}
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    return {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.connect.grpc.binding.port": port,
            "spark.connect.grpc.binding.address": "127.0.0.1"}  # fmt: skip


@pytest.fixture(scope="session")
def spark_connect(spark: Any) -> str:
    """The address of Spark Connect at the driver of the session."""
    return f"sc://127.0.0.1:{spark.sparkContext.getConf().get('spark.connect.grpc.binding.port')}"


def needs_cluster(item: pytest.Item) -> bool:
    """Whether a test asks for the cluster, by name or as one engine of several."""
    return "spark_cluster" in getattr(item, "fixturenames", ()) or "[spark]" in item.nodeid
