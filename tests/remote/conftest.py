"""A real S3 server on this machine, a bucket in it, and a proxy before it that breaks what passes."""

from __future__ import annotations

import http.client
import http.server
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from s3_server import BUCKET, KEY, SECRET, Server

# What the proxy does to a request, by its number and method: None passes it on as it is.
Fault = Callable[[int, str], str | None]


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to the server, but for those that `fault` names; it counts them all."""

    daemon_threads = True

    def __init__(self, server: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.server_at, self.fault, self.asked = ("127.0.0.1", server.s3), None, itertools.count()
        self.requests: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    server_at: tuple[str, int]
    fault: Fault | None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def begin(self, fault: Fault | None = None) -> None:
        """Count from 0, with another fault."""
        self.fault, self.asked, self.requests = fault, itertools.count(), []


class _Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _pass(self) -> None:
        self.server.requests.append(f"{self.command} {self.path.partition('?')[0]}")
        fault = self.server.fault and self.server.fault(next(self.server.asked), self.command)
        if fault == "cut":
            self.close_connection = True
            return self.connection.close()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if fault and fault.isdigit():
            return self._answer(int(fault), [], b"")
        if fault == "expired":
            return self._answer(400, [], b"<Error><Code>ExpiredToken</Code><Message>It has.</Message></Error>")
        if fault == "no bucket":
            return self._answer(404, [], b"<Error><Code>NoSuchBucket</Code><Message>There is none.</Message></Error>")
        connection = http.client.HTTPConnection(*self.server.server_at, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers))  # with its Host, which is signed
        answer = connection.getresponse()
        data = answer.read()
        headers = [pair for pair in answer.getheaders() if pair[0].lower() not in ("transfer-encoding", "connection")]
        if fault == "lost":  # done, and nobody is told
            self.close_connection = True
            return self.connection.close()
        if fault == "half":
            self._answer(answer.status, headers, data[: len(data) // 2])
            self.close_connection = True
            return self.connection.close()
        if fault == "flip" and data:
            data = bytes([data[0] ^ 1]) + data[1:]
        return self._answer(answer.status, headers, data)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass


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


@pytest.fixture
def proxy(_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The proxy, which the environment names as the cloud's tools would have it."""
    _proxy.begin()
    for name, value in {
        "AWS_ENDPOINT_URL": _proxy.address, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
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
