"""A Spark Connect server on this machine, for tests, ended by pid."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_START_SECONDS = 300


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The address of a server of two cores, whose log is in `folder`."""
    import pyspark

    home, port, log = Path(pyspark.__file__).parent, _free_port(), folder / "connect.log"
    settings = {"spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false", "spark.driver.memory": "512m",
                "spark.connect.grpc.binding.address": "127.0.0.1", "spark.sql.shuffle.partitions": 3}  # fmt: skip
    flags = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [home / "bin" / "spark-submit", "--master", "local[2]", *flags, "--class", kind, "spark-internal"]
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        _wait(server, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except OSError:
            if time.monotonic() > until or server.poll() is not None:
                raise RuntimeError(f"Spark Connect did not start: {log.read_text(errors='replace')[-2000:]}") from None
            time.sleep(0.1)
