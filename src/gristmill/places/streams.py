"""Objects as files that are read: from one end to the other, with the next ranges on their way, or here and there."""

from __future__ import annotations

import errno
import io
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from gristmill.places.remote import Remote

# Requests at a time, and what a stream reads at once: beyond these one connection more, or a longer request, brings
# little from one server. And how many such ranges a stream asks for ahead.
REQUESTS = 16
STREAM_BYTES = 1 << 20
_AHEAD = 4


@lru_cache(maxsize=1)
def pool_of(pid: int) -> ThreadPoolExecutor:
    """The threads of this process in which requests wait side by side."""
    return ThreadPoolExecutor(REQUESTS, "gristmill-fetch")


class Positioned(io.RawIOBase):
    """A file of `size` bytes that is read, and has a position."""

    def __init__(self, size: int) -> None:
        self._at, self._size = 0, size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at


class Stream(Positioned):
    """One version of an object as a file that can seek: each read is a request."""

    def __init__(self, place: Remote) -> None:
        found = place.head()
        super().__init__(int(found["size"]))
        self._place, self._tag = place, found["e_tag"]

    def readinto(self, into: WriteableBuffer) -> int:
        view = memoryview(into).cast("B")
        size = min(len(view), self._size - self._at)
        found = self._next(size) if size > 0 else b""
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def _next(self, size: int) -> bytes | memoryview:
        return self._read(self._at, size)

    def _read(self, start: int, size: int) -> bytes:
        """A range that is there, as long as it was when the object was opened."""
        try:
            found = self._place.read_tagged(start, size, self._tag)
        except FileExistsError:
            raise OSError(errno.EIO, "it was replaced while it was read", self._place.path) from None
        if len(found) != size:
            raise OSError(errno.EIO, f"{len(found):,} bytes came where {size:,} were asked for", self._place.path)
        return found


class Flow(Stream):
    """A stream that is read from one end to the other: the next ranges are asked for while one is worked on.

    Ahead it asks for nothing before a second read follows the first: many files are only looked into.
    """

    def __init__(self, place: Remote) -> None:
        super().__init__(place)
        self._ahead = deque[tuple[int, Future[bytes]]]()
        self._start, self._part = 0, b""

    def _next(self, size: int) -> memoryview:
        follows = self._at == self._start + len(self._part) and self._part
        if not self._start <= self._at < self._start + len(self._part):
            self._start, self._part = self._at, self._fetched()
        if follows:
            self._ask_ahead()
        begin = self._at - self._start
        return memoryview(self._part)[begin : begin + size]

    def _fetched(self) -> bytes:
        if self._ahead and self._ahead[0][0] == self._at:
            return self._ahead.popleft()[1].result()
        self._ahead.clear()
        return self._read(self._at, min(STREAM_BYTES, self._size - self._at))

    def _ask_ahead(self) -> None:
        last, pool = self._start + len(self._part), pool_of(os.getpid())
        for start in range(last, min(last + _AHEAD * STREAM_BYTES, self._size), STREAM_BYTES):
            if not self._ahead or start > self._ahead[-1][0]:
                size = min(STREAM_BYTES, self._size - start)
                self._ahead.append((start, pool.submit(self._read, start, size)))
