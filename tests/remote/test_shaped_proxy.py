"""The network of the benchmarks: what passes is passed on whole and counted, and nothing is quicker than asked for."""

from __future__ import annotations

import http.client
import http.server
import importlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

BODY = bytes(range(256)) * 1024
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


class _Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


@pytest.fixture
def shaped(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("shaped_proxy")


def _get(address: str, times: int = 1) -> float:
    """Ask so many times by one connection; seconds that it took."""
    connection, began = http.client.HTTPConnection(address.removeprefix("http://")), time.monotonic()
    for _ in range(times):
        connection.request("GET", "/")
        assert connection.getresponse().read() == BODY
    connection.close()
    return time.monotonic() - began


def test_bytes_pass_unchanged_and_requests_bodies_and_connections_are_counted(port: int, shaped: Any) -> None:
    with shaped.ShapedProxy(port) as proxy:
        _get(proxy.address, 3)
        _get(proxy.address)
        assert proxy.counts() == shaped.Counts(requests=4, body_bytes=4 * len(BODY), connections=2)
        proxy.begin(shaped.Shape())
        assert proxy.counts() == shaped.Counts()


def test_a_request_takes_the_latency_and_the_first_of_a_connection_twice_that(port: int, shaped: Any) -> None:
    with shaped.ShapedProxy(port, shaped.Shape(latency=0.05)) as proxy:
        assert _get(proxy.address, 3) >= 0.2


def test_connections_share_the_bandwidth(port: int, shaped: Any) -> None:
    with shaped.ShapedProxy(port, shaped.Shape(bandwidth=4 * len(BODY))) as proxy, ThreadPoolExecutor(4) as pool:
        began = time.monotonic()
        list(pool.map(_get, [proxy.address] * 4))
        assert time.monotonic() - began >= 0.95


def test_requests_are_let_through_at_their_rate(port: int, shaped: Any) -> None:
    with shaped.ShapedProxy(port, shaped.Shape(requests=40)) as proxy:
        assert _get(proxy.address, 11) >= 0.25
