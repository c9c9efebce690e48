"""A proxy before the S3 server of the tests that breaks what passes, as networks, servers and people do.

A fault is a name, given by a function of a request's number and method:

    500, 503, 429, ...   the server says so, and nothing else
    later                503, with the Retry-After of a server that is busy
    cut                  the connection ends before an answer
    lost                 it ends when the server has done what was asked
    half                 it ends in the middle of the body
    shorter, longer      a body, and its Content-Length, of some bytes fewer or more than were asked for
    elsewhere            another part of the object than was asked for, and a Content-Range that says so
    flip                 one bit of the body is another
    slow                 a byte now and then, and no end
    no bucket            404, of the bucket
    expired              400, credentials have come to their end; 403 is what a server says that does not know them
"""

from __future__ import annotations

import http.client
import http.server
import itertools
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from s3_server import Server

# What the proxy does to a request, by its number and method: None passes it on as it is.
Fault = Callable[[int, str], str | None]
Headers = list[tuple[str, str]]
_AFTER = ("lost", "half", "shorter", "longer", "elsewhere", "flip", "slow")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to the server, but for those that `fault` names; it counts both."""

    daemon_threads = True
    # Sixteen readers that were all cut off come back together.
    request_queue_size = 128

    def __init__(self, server: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.server_at = ("127.0.0.1", server.s3)
        self._away = threading.Event()
        self.begin()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def begin(self, fault: Fault | None = None) -> None:
        """Count from 0, with another fault."""
        self.fault, self.asked = fault, itertools.count()
        self.requests: list[str] = []
        self.injected: Counter[str] = Counter()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in mid-answer is what the tests are about."""

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nobody listens at the proxy's port meanwhile, and connections that there are end."""
        self._away.set()
        self.shutdown()
        self.socket.close()
        try:
            yield
        finally:
            self.socket = socket.socket(self.address_family, self.socket_type)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_activate()
            self._away.clear()
            threading.Thread(target=self.serve_forever, daemon=True).start()

    def is_away(self) -> bool:
        return self._away.is_set()


class _Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A connection that nobody uses any more ends by itself.
    timeout = 60
    # Head and body are two writes: the second would wait 40 ms for the reader's word that it has the first.
    disable_nagle_algorithm = True
    server: Proxy

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _pass(self) -> None:
        self.server.requests.append(f"{self.command} {self.path.partition('?')[0]}")
        number = next(self.server.asked)
        fault = self.server.fault and self.server.fault(number, self.command)
        if fault == "cut" or self.server.is_away():
            self.server.injected["cut"] += 1
            return self._close()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if fault and fault not in _AFTER:
            self.server.injected[fault] += 1
            return self._refuse(fault)
        status, headers, data = self._asked(body)
        if fault == "lost":
            return self._close()
        if fault and self.command == "GET" and status in (200, 206) and len(data) > 16:
            self.server.injected[fault] += 1
            return self._break(fault, status, headers, data, random.Random(number))
        return self._answer(status, headers, data)

    def _asked(self, body: bytes) -> tuple[int, Headers, bytes]:
        connection = http.client.HTTPConnection(*self.server.server_at, timeout=60)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))  # with its Host, which is signed
            answer = connection.getresponse()
            hops = ("transfer-encoding", "connection")
            return answer.status, [pair for pair in answer.getheaders() if pair[0].lower() not in hops], answer.read()
        finally:
            connection.close()

    def _refuse(self, fault: str) -> None:
        codes = {"expired": "ExpiredToken", "403": "InvalidAccessKeyId", "no bucket": "NoSuchBucket"}
        code = codes.get(fault, "InternalError")
        status = {"expired": 400, "later": 503, "no bucket": 404}.get(fault) or int(fault)
        headers = [("Retry-After", "1")] if fault == "later" else []
        self._answer(status, headers, f"<Error><Code>{code}</Code><Message>So it is.</Message></Error>".encode())

    def _break(self, fault: str, status: int, headers: Headers, data: bytes, rng: random.Random) -> None:
        if fault == "flip":
            at = rng.randrange(len(data))
            return self._answer(status, headers, data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        if fault in ("half", "slow"):
            self._answer(status, headers, data[: rng.randrange(len(data))])
            until = time.monotonic() + (60 if fault == "slow" else 0)
            while time.monotonic() < until and not self.server.is_away():
                self.wfile.write(data[:1] if rng.random() < 0.01 else b"")
                time.sleep(0.1)
            return self._close()
        less = rng.randrange(1, len(data))
        if fault == "elsewhere":
            data, headers = data[less:] + data[:less], [(name, _moved(name, value)) for name, value in headers]
        else:
            data = data[:-less] if fault == "shorter" else data + bytes(less)
            headers = [pair for pair in headers if pair[0].lower() != "content-length"]
        return self._answer(status, headers, data)

    def _answer(self, status: int, headers: Headers, data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _close(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass


def _moved(name: str, value: str) -> str:
    """A Content-Range of as many bytes, one further on."""
    found = _RANGE.fullmatch(value) if name.lower() == "content-range" else None
    return f"bytes {int(found[1]) + 1}-{int(found[2]) + 1}/{int(found[3]) + 1}" if found else value
