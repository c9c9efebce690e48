"""The pages of the viewer, asked for as a browser on this machine does."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gristmill.view.server import Server, serving
from gristmill.view.subject import open_subject


@dataclass(frozen=True)
class Page:
    """An answer: its status, headers and text."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass(frozen=True)
class Site:
    """A server at work."""

    server: Server

    def get(self, name: str = "", method: str = "GET", **headers: str) -> Page:
        """A page by its name, as a browser on this machine asks for it."""
        return self.ask(f"/{self.server.token}/{name}", method, **headers)

    def ask(self, path: str, method: str = "GET", **headers: str) -> Page:
        """Whatever is asked; headers with underscores for dashes, Host among them if it is another."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        found = Page(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read().decode())
        connection.close()
        return found

    def until_done(self, name: str) -> Page:
        """The page of a search, asked for again as a browser does, until it is done."""
        page = self.get(name)
        while "refresh" in page.headers:
            page = self.get(name)
        return page


@contextmanager
def served(path: Path) -> Iterator[Site]:
    """The pages of what lies there, for the length of the block."""
    with serving(open_subject(str(path))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Site(server)
        finally:
            server.shutdown()
            thread.join()
