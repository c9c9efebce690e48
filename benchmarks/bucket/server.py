"""The bucket: a real S3 server on this machine, whose files stay in benchmarks/data between runs."""

import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.store import S3Store

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from s3_server import BUCKET, KEY, SECRET, Server

_UPLOADS = 8  # at a time; more are slower from this server


class Bucket:
    """The server's one bucket; those who read it find it in the environment, each in the variables that it knows."""

    def __init__(self, server: Server) -> None:
        self.port, self.address, self._client = server.s3, server.address, client(server.address)

    def holds(self, prefix: str) -> bool:
        """Whether all that belongs below a prefix was put there."""
        return any(entry["path"] == f"uploaded/{prefix}" for entry in obstore.list(self._client, "uploaded").collect())

    def add(self, prefix: str, files: Iterable[Path], folder: Path) -> None:
        """Put files of a folder below a prefix, once; the mark that they are all there comes last."""
        if self.holds(prefix):
            return
        with ThreadPoolExecutor(_UPLOADS) as pool:
            for _ in pool.map(lambda path: self._put(f"{prefix}/{path.relative_to(folder).as_posix()}", path), files):
                pass
        obstore.put(self._client, f"uploaded/{prefix}", b"whole")

    def _put(self, key: str, path: Path) -> None:
        obstore.put(self._client, key, path)


def client(address: str) -> S3Store:
    """obstore's own client of the bucket."""
    return S3Store(BUCKET, endpoint=address, access_key_id=KEY, secret_access_key=SECRET, region="us-east-1",
                   client_options={"allow_http": True})  # fmt: skip


@contextmanager
def bucket(folder: Path, cores: set[int] | None = None) -> Iterator[Bucket]:
    """Start the server, on these cores alone if any are named, and say where it is; stop it at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with on_cores(cores or os.sched_getaffinity(0)):
        server = Server(folder)
    try:
        reach(server.address)
        yield Bucket(server)
    finally:
        server.stop()


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Keep this process, and all that it starts meanwhile, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def reach(address: str) -> None:
    """Let all processes that are started from now on ask the server, or a proxy before it, at this address."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",  # litdata's obstore
        "S3_ENDPOINT_URL": address,  # mosaicml-streaming
    }
