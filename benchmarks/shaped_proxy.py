"""A network between a client and a server on this machine: latency, bandwidth and requests a second, as asked for.

    with ShapedProxy(port, Shape(bandwidth=20e6, latency=0.05)) as proxy:
        ...  # clients ask proxy.address instead of http://127.0.0.1:PORT
        print(proxy.counts())

The proxy is a process of its own, so that it shares no interpreter with what is measured, and passes bytes on as they
come: it reads no more of HTTP than where a request begins and how long an answer is. A request waits for `latency`
before the server sees it, the first of a connection twice as long (a handshake). The bodies of all connections share
`bandwidth` fairly, 64 KiB in turn; the first part of an answer is shorter, each by another length: else answers that
began together would end together for ever, which no network brings about. Behind it SeaweedFS is what limits: on two
cores that others use too it gives 100 MB/s and 200 requests a second, with the proxy or without, so that shapes should
ask for less than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Self

_PART = 64 << 10
# What the first parts of answers differ by, as a share of a whole one: all lengths, alike often.
_STRIDE = (5**0.5 - 1) / 2
# What a link that was idle may send at once: more than a timer is late by, less than a request takes.
_CREDIT_SECONDS = 0.002
# What an answer announces and is not there by then does not come: it is one to HEAD.
_FOLLOWS_SECONDS = 0.003
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
Wait = Callable[[bytes], Awaitable[None]]
Part = Callable[[], Awaitable[bytes]]


@dataclasses.dataclass(frozen=True)
class Shape:
    """A network: bytes a second of all answers, seconds before an answer, requests a second; None is no limit."""

    bandwidth: float | None = None
    latency: float = 0.0
    requests: float | None = None


@dataclasses.dataclass
class Counts:
    """What has passed: requests, bytes of the answers' bodies, and connections that were opened."""

    requests: int = 0
    body_bytes: int = 0
    connections: int = 0


class ShapedProxy:
    """A proxy before a port of this machine; its shape can be changed while it runs."""

    def __init__(self, port: int, shape: Shape | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = f"http://127.0.0.1:{self._answer()}"
        self.begin(shape or Shape())

    def begin(self, shape: Shape) -> None:
        """Count from 0, in another shape."""
        self._ask(dataclasses.asdict(shape))

    def counts(self) -> Counts:
        """What has passed since `begin`."""
        return Counts(**self._ask(None))

    def _ask(self, shape: dict[str, float | None] | None) -> dict[str, int]:
        assert self._process.stdin is not None
        print(json.dumps(shape), file=self._process.stdin, flush=True)
        counts: dict[str, int] = json.loads(self._answer())
        return counts

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()[:-1]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Turns:
    """A resource that gives `rate` units a second to whoever asks, in the order of asking."""

    def __init__(self, rate: float | None) -> None:
        self._rate, self._free_at = rate, 0.0

    async def take(self, units: float) -> None:
        if self._rate is not None:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - _CREDIT_SECONDS) + units / self._rate
            await asyncio.sleep(max(self._free_at - now, 0))


class _Link:
    """What all connections share."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.begin(Shape())

    def begin(self, shape: Shape) -> None:
        self.shape, self.counts, self.answers = shape, Counts(), 0
        self.bytes, self.requests = _Turns(shape.bandwidth), _Turns(shape.requests)

    async def serve(self, listening: socket.socket) -> None:
        loop, running = asyncio.get_running_loop(), set[asyncio.Task[None]]()
        while True:
            client, _ = await loop.sock_accept(listening)
            task = asyncio.create_task(_Connection(self, client).run())
            running.add(task)
            task.add_done_callback(running.discard)


class _Connection:
    """One connection of a client, and the one to the server that stands for it."""

    def __init__(self, link: _Link, client: socket.socket) -> None:
        self._link, self._client, self._server = link, client, socket.socket()
        self._answered, self._in_head = True, False
        # Of an answer: what has come too early, and how much is to come.
        self._rest, self._left = b"", 0

    async def run(self) -> None:
        link = self._link
        for end in (self._client, self._server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.counts.connections += 1
        try:
            await asyncio.get_running_loop().sock_connect(self._server, ("127.0.0.1", link.port))
            await asyncio.sleep(link.shape.latency)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(self._asked, self._server, self._ask))
                both.create_task(self._pass(self._told, self._client, self._tell))
        except* OSError:
            pass  # one side has gone, which the other is told by the end of its connection
        finally:
            self._client.close()
            self._server.close()

    async def _pass(self, part: Part, target: socket.socket, wait: Wait) -> None:
        while data := await part():
            await wait(data)
            await asyncio.get_running_loop().sock_sendall(target, data)
        target.shutdown(socket.SHUT_WR)

    async def _asked(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._client, _PART)

    async def _told(self) -> bytes:
        """A part of an answer, however the kernel hands it over; what comes beyond it is the next one's."""
        loop, size = asyncio.get_running_loop(), _PART
        data, self._rest = self._rest or await loop.sock_recv(self._server, _PART), b""
        if not self._answered:
            self._link.answers += 1
            size, self._left = 1 + int(_PART * (self._link.answers * _STRIDE % 1)), _length(data)
        with contextlib.suppress(TimeoutError):
            while len(data) < min(size, self._left):
                more = await asyncio.wait_for(loop.sock_recv(self._server, _PART), _FOLLOWS_SECONDS)
                data += more
                if not more:
                    break
        data, self._rest = data[:size], data[size:]
        self._left -= len(data)
        return data

    async def _ask(self, data: bytes) -> None:
        """Bytes that follow an answer begin a request: nobody sends the next one before the last is answered."""
        if self._answered:
            self._answered, self._in_head = False, True
            self._link.counts.requests += 1
            await self._link.requests.take(1)
            await asyncio.sleep(self._link.shape.latency)

    async def _tell(self, data: bytes) -> None:
        """Heads pass at once: what is counted and limited is bodies."""
        self._answered = True
        size = len(data)
        if self._in_head and (head := data.find(b"\r\n\r\n")) >= 0:
            self._in_head, size = False, size - head - 4
        if not self._in_head:
            self._link.counts.body_bytes += size
            await self._link.bytes.take(size)


def _length(data: bytes) -> int:
    """Bytes of an answer that begins with this, head and body, as far as it says so."""
    head, end, _ = data.partition(b"\r\n\r\n")
    found = _LENGTH.search(head + end)
    return len(head + end) + int(found[1]) if found else len(data)


def _obey(link: _Link, loop: asyncio.AbstractEventLoop) -> None:
    """Lines of the parent: a shape to begin with, or null for the counts; the end of them is the end."""
    for line in sys.stdin:
        if values := json.loads(line):
            link.begin(Shape(**values))
        print(json.dumps(dataclasses.asdict(link.counts)), flush=True)
    loop.call_soon_threadsafe(loop.stop)


def _main() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listening.setblocking(False)
    print(listening.getsockname()[1], flush=True)
    loop, link = asyncio.new_event_loop(), _Link(int(sys.argv[1]))
    threading.Thread(target=_obey, args=(link, loop), daemon=True).start()
    serving = loop.create_task(link.serve(listening))
    loop.run_forever()
    serving.cancel()


if __name__ == "__main__":
    _main()
