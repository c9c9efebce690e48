"""A real S3 server on this machine, a bucket in it, and a proxy before it that breaks what passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from breaking_proxy import Proxy
from s3_server import BUCKET, KEY, SECRET, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("s3"))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def _proxy(server: Server) -> Iterator[Proxy]:
    made = Proxy(server)
    yield made
    made.shutdown()


def variables(proxy: Proxy) -> dict[str, str]:
    """The environment that names a proxy as the cloud's tools would have it."""
    return {"AWS_ENDPOINT_URL": proxy.address, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1"}  # fmt: skip


@pytest.fixture
def proxy(_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The proxy, which the environment names."""
    _proxy.begin()
    for name, value in variables(_proxy).items():
        monkeypatch.setenv(name, value)
    return _proxy


@pytest.fixture(scope="session")
def upload(server: Server) -> Callable[[Path, str], str]:
    """`upload(folder, prefix)`: its files in the bucket, past the proxy, below an address that is given back."""

    def put(folder: Path, prefix: str) -> str:
        import obstore
        from obstore.store import S3Store

        store = S3Store(BUCKET, endpoint=server.address, access_key_id=KEY, secret_access_key=SECRET,
                        region="us-east-1", client_options={"allow_http": True})  # fmt: skip
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "/." not in path.as_posix():
                obstore.put(store, f"{prefix}/{path.relative_to(folder).as_posix()}", path)
        return f"s3://{BUCKET}/{prefix}"

    return put
