"""A process that asks object storage for one that was forked: obstore's threads do not survive a fork, a pipe does.

It is started when a forked process first asks, runs this module as a program, and ends with who started it. What goes
through its pipes are lengths, JSON and bytes: verb, address and arguments one way, a value or an error and the bytes of
a range the other. Sixteen errands are run at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, NamedTuple

from gristmill.core import errors
from gristmill.core.errors import EngineError, GristmillError
from gristmill.core.locks import Lock

_SIZES = struct.Struct("<IQ")
_AT_ONCE = 16
_ENDED = "The process that fetches for this forked one has ended: look why (memory?), and run again."


class Answer(NamedTuple):
    """What came back: a plain value, and the bytes of a range."""

    value: Any
    data: bytes


def _send(file: IO[bytes], head: object, data: bytes = b"") -> None:
    text = json.dumps(head).encode()
    file.write(_SIZES.pack(len(text), len(data)) + text)
    file.write(data)
    file.flush()


def _received(file: IO[bytes]) -> tuple[Any, bytes] | None:
    """The next message; None where the other side has ended."""
    sizes = file.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    head, size = _SIZES.unpack(sizes)
    text, data = file.read(head), file.read(size)
    return (json.loads(text), data) if len(data) == size else None


class Errands:
    """The helper of this process. Safe to use from many threads."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._numbers, self._lock, self._ended = itertools.count(), Lock(), False
        self._waiting: dict[int, Future[tuple[Any, bytes]]] = {}
        threading.Thread(target=self._hand_out, name="gristmill-errands", daemon=True).start()

    def ask(self, verb: str, path: str, *arguments: object) -> Answer:
        """What a method of the place at `path` gives in the helper, errors included."""
        assert self._process.stdin is not None
        future: Future[tuple[Any, bytes]] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._ended:
                raise EngineError(_ENDED)
            self._waiting[number] = future
            with contextlib.suppress(BrokenPipeError):  # which the thread that hands out answers meets too
                _send(self._process.stdin, [number, verb, path, arguments])
        (error, value), data = future.result()
        if error is not None:
            raise _error(*error)
        return Answer(value, data)

    def _hand_out(self) -> None:
        assert self._process.stdout is not None
        while message := _received(self._process.stdout):
            (number, *rest), data = message
            self._waiting.pop(number).set_result((rest, data))
        with self._lock:
            self._ended = True
            for future in self._waiting.values():
                future.set_exception(EngineError(_ENDED))
            self._waiting.clear()


_own: dict[int, Errands] = {}
_making = Lock()


def errands() -> Errands:
    """The helper of this very process, started when it is first needed."""
    with _making:
        if os.getpid() not in _own:
            _own.clear()
            _own[os.getpid()] = Errands()
        return _own[os.getpid()]


def _error(kind: str, text: str, number: int | None, name: str | None) -> Exception:
    """An error of ours or of the system, as it was raised in the helper."""
    if number is not None:
        return OSError(number, text, name)
    found = getattr(errors, kind, None)
    return found(text) if isinstance(found, type) and issubclass(found, GristmillError) else EngineError(text)


def _told(error: Exception) -> list[object]:
    if isinstance(error, OSError) and error.errno is not None:
        return [type(error).__name__, error.strerror, error.errno, error.filename]
    return [type(error).__name__, str(error), None, None]


def _done(verb: str, path: str, arguments: list[Any]) -> tuple[object, bytes]:
    from gristmill.places.remote import Remote

    place = Remote(path)
    if verb == "read_version":
        data, version = place.read_version(*arguments)
        return version, data.tobytes()
    if verb == "read_tagged":
        return None, place.read_tagged(*arguments)
    if verb == "entries":
        return place.entries(), b""
    found = [place.head()] if verb == "head" else place._listed()
    plain = [{"path": entry["path"], "size": entry["size"], "e_tag": entry["e_tag"]} for entry in found]
    return (plain[0] if verb == "head" else plain), b""


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Run errands until the other side ends."""
    lock = threading.Lock()

    def run(number: int, verb: str, path: str, arguments: list[Any]) -> None:
        error, value, data = None, None, b""
        try:
            value, data = _done(verb, path, arguments)
        except Exception as caught:  # whatever it is, it is told where it was asked for
            error = _told(caught)
        with lock, contextlib.suppress(OSError):
            _send(answers, [number, error, value], data)

    pool = ThreadPoolExecutor(_AT_ONCE)
    while message := _received(requests):
        pool.submit(run, *message[0])
    os._exit(0)  # nobody waits for what is still under way


def _end_with(parent: int) -> None:
    """Another process may hold the pipe open after the one that started this has died."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _serve(sys.stdin.buffer, sys.stdout.buffer)
