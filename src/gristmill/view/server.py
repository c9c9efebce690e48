"""The server: bound to this machine, for whoever knows the token in its address, and for nobody else.

A page of another site may make a browser ask anything of 127.0.0.1, and a name that it owns may lead here; so whatever
comes without the token, for another host's name, or from another origin is refused with nothing said.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gristmill.core.errors import ConfigError
from gristmill.report.page import policy
from gristmill.view.pages import Pages
from gristmill.view.parts import Answer, Params, view_style
from gristmill.view.subject import Subject

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
_MOST_QUERY = 32_768
_SECONDS = 30


class Server(ThreadingHTTPServer):
    """Pages at `address`, which has a token of 128 bits."""

    daemon_threads = True
    # So that a port can be used again at once; elsewhere than on POSIX it would let others listen there too.
    allow_reuse_address = os.name == "posix"

    def __init__(self, subject: Subject, port: int = 0) -> None:
        self.token, self.pages = secrets.token_urlsafe(16), Pages(subject)
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """Where the first page is."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> list[str]:
        """What a browser on this machine calls it."""
        return [f"{name}:{self.server_port}" for name in _NAMES]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no news; any other error is a fault of ours."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "gristmill", ""
    timeout = _SECONDS

    def do_GET(self) -> None:
        """A page, if whoever asks may see it."""
        name = self._allowed()
        if name is None:
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        try:
            params = self._params()
        except ValueError:  # more fields than any page has
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        self._send(self.server.pages.answer(name, params))

    do_HEAD = do_GET  # the name is http.server's

    def _allowed(self) -> str | None:
        """The name of the page that is asked for; None if nothing may be told."""
        _, token, *rest = unquote(urlsplit(self.path).path).split("/", 2) if self.path.startswith("/") else ("", "")
        known = hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode())
        if not known or not rest or len(self.path) > _MOST_QUERY or not self._comes_from_here():
            return None
        return rest[0]

    def _comes_from_here(self) -> bool:
        """Whether the browser asked for this host, from no page or from one of this server."""
        hosts, origin = self.server.hosts, self.headers.get("Origin")
        asked = self.headers.get_all("Host") or []
        site = self.headers.get("Sec-Fetch-Site", "none")
        own = origin is None or origin in [f"http://{host}" for host in hosts]
        return len(asked) == 1 and asked[0] in hosts and own and site in ("none", "same-origin")

    def _params(self) -> Params:
        return dict(parse_qsl(urlsplit(self.path).query, max_num_fields=32, errors="replace"))

    def _send(self, answer: Answer) -> None:
        body = answer.html.encode("utf-8", "replace")
        self.send_response(HTTPStatus.SEE_OTHER if answer.go_to else answer.status)
        if answer.go_to:
            self.send_header("Location", f"/{self.server.token}/{answer.go_to}")
        if answer.again:
            self.send_header("Refresh", str(answer.again))
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Security-Policy", f"{policy(forms=True, looks=view_style())}; frame-ancestors 'none'")
        self._end(len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        self._end(0)

    def _end(self, size: int) -> None:
        self.send_header("Content-Length", str(size))
        for name, value in _ALWAYS.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request, or asks to change something, is refused with nothing said."""
        self.close_connection = True
        self._refuse(code if code != HTTPStatus.NOT_IMPLEMENTED else HTTPStatus.METHOD_NOT_ALLOWED)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: addresses hold the token, and what was looked for."""


_ALWAYS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Connection": "close",
}


@contextmanager
def serving(subject: Subject, port: int = 0) -> Iterator[Server]:
    """A server that is bound, for the length of the block; searches end with it."""
    if port > 65_535:
        raise ConfigError(f"port={port} is none: ports go up to 65,535.", arguments="port")
    try:
        server = Server(subject, port)
    except OSError as error:
        raise ConfigError(
            f"port={port} cannot be used ({error.strerror}): give another, or none to get a free one.", arguments="port"
        ) from error
    try:
        yield server
    finally:
        server.pages.jobs.stop()
        server.server_close()
