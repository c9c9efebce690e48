"""Objects in S3, Google Storage, Azure and behind http(s): read by ranges, through obstore.

How they are reached, by whose credentials and with how much patience, `clients.py` and `storage.py` say.
"""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from typing import IO, TYPE_CHECKING, NoReturn, TypeVar

from gristmill.core.extras import extra
from gristmill.core.hashing import hash64
from gristmill.places.base import Place, Range
from gristmill.places.clients import asked
from gristmill.places.traffic import traffic

with extra("remote", "An address in object storage"):
    import obstore

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

# Requests at a time, and what a stream reads ahead: beyond these one connection more, or a longer request, brings
# little from one server.
_REQUESTS = 16
_STREAM_BYTES = 1 << 20
_PAGE = 1000
Result = TypeVar("Result")


class Remote(Place):
    """An object, or the objects below a prefix."""

    def __init__(self, path: str) -> None:
        self.path = path
        scheme, _, rest = path.partition("://")
        parts = rest.split("/")
        first = 2 if scheme == "az" else 1  # account and container, where others have a bucket
        self._root, self._key = f"{scheme}://{'/'.join(parts[:first])}", "/".join(parts[first:])

    def _asked(self, request: Callable[[ObjectStore], Result]) -> Result:
        return asked(self.path, self._root, request)

    # Looking.

    def exists(self) -> bool:
        return self.is_file() or self.is_folder()

    def is_file(self, *, links: bool = True) -> bool:
        try:
            self._head()
        except FileNotFoundError:
            return False
        return True

    @property
    def _lists(self) -> bool:
        return self._root.startswith(("s3:", "gs:", "az:"))

    def is_folder(self) -> bool:
        return self._lists and any(True for _ in self._listed())

    def is_link(self) -> bool:
        return False

    def real(self) -> str:
        return self.path

    def size(self) -> int:
        return int(self._head()["size"])

    @classmethod
    def sizes(cls, paths: Iterable[str]) -> Iterator[int]:
        """One listing a folder, a page of 1,000 names a request; a request a file behind http, which lists nothing."""
        known: dict[str, dict[str, int]] = {}
        for path in paths:
            if not cls(path)._lists:
                yield cls(path).size()
                continue
            folder, _, name = path.rpartition("/")
            if folder not in known:
                known[folder] = {entry["path"].rpartition("/")[2]: entry["size"] for entry in cls(folder)._listed()}
            if name not in known[folder]:
                raise FileNotFoundError(errno.ENOENT, "No such object", path)
            yield known[folder][name]

    def stamp(self) -> tuple[int, int]:
        found = self._head()
        return int(found["size"]), _version(found["e_tag"])

    def names(self) -> list[str]:
        if not self._lists:
            return []
        found = self._asked(lambda store: obstore.list_with_delimiter(store, self._key))
        folders = [str(prefix) for prefix in found["common_prefixes"]]
        return sorted(posixpath.basename(name) for name in (*folders, *(entry["path"] for entry in found["objects"])))

    def walk(self, *, links: bool) -> Iterator[tuple[str, list[str]]]:
        below: dict[str, list[str]] = {}
        for entry in self._listed():
            folder, _, name = f"{self._root}/{entry['path']}".rpartition("/")
            if not any(part.startswith(".") for part in (folder.removeprefix(self.path) + f"/{name}").split("/")):
                below.setdefault(folder, []).append(name)
        yield from ((folder, sorted(names)) for folder, names in sorted(below.items()))

    def matching(self) -> list[str]:
        fixed = self.path[: min((self.path.find(mark) for mark in "*?[" if mark in self.path), default=len(self.path))]
        if fixed == self.path:
            return [self.path] if self.is_file() else []
        found = (f"{self._root}/{entry['path']}" for entry in Remote(fixed.rpartition("/")[0])._listed())
        return sorted(path for path in found if _matches(path.split("/"), self.path.split("/")))

    def _head(self) -> ObjectMeta:
        return self._asked(lambda store: obstore.head(store, self._key))

    def _listed(self) -> Iterator[ObjectMeta]:
        """What lies below this prefix, with path, size and e_tag; each page is tried again by itself."""
        last, prefix = None, f"{self._key}/" if self._key else None
        while True:
            page = self._asked(partial(_page, prefix, last))
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1]["path"]

    # Reading.

    def open(self, *, buffered: bool = True) -> IO[bytes]:
        raw = _Stream(self)
        return io.BufferedReader(raw, _STREAM_BYTES) if buffered else raw  # type: ignore[return-value]

    def read(self, start: int = 0, size: int = -1) -> bytes:
        return self.read_version(start, size)[0]

    def read_version(self, start: int, size: int) -> tuple[bytes, int]:
        data, tag = self._asked(partial(_read, self._key, start, size))
        traffic.add(fetched_bytes=len(data))
        return data, _version(tag)

    @classmethod
    def fetch(cls, ranges: Iterable[Range]) -> Iterator[bytes]:
        """Sixteen requests at a time, given in order; at most twice as many are asked for before they are taken."""
        pool, asked = _pool(os.getpid()), deque[Future[bytes]]()
        for wanted in ranges:
            asked.append(pool.submit(cls(wanted.path).read, wanted.start, wanted.size))
            if len(asked) >= 2 * _REQUESTS:
                yield asked.popleft().result()
        while asked:
            yield asked.popleft().result()

    # Writing.

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EROFS, "nothing is written there, so far", self.path)

    def attempt(self, buffering: int = -1) -> NoReturn:
        self._refuse()

    def filling(self, size: int) -> NoReturn:
        self._refuse()

    def link(self, source: str) -> None:
        self._refuse()

    def make_folder(self) -> None:
        self._refuse()

    def remove(self) -> None:
        self._refuse()

    def clear_leftovers(self) -> None:
        self._refuse()

    def lock(self, *, wait: bool) -> NoReturn:
        self._refuse()


class _Stream(io.RawIOBase):
    """An object as a file that can seek: each read is a request."""

    def __init__(self, place: Remote) -> None:
        self._place, self._at, self._size = place, 0, place.size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, into: WriteableBuffer) -> int:
        view = memoryview(into).cast("B")
        size = min(len(view), self._size - self._at)
        found = self._place.read(self._at, size) if size > 0 else b""
        view[: len(found)] = found
        self._at += len(found)
        return len(found)


def _version(tag: str | None) -> int:
    """A number for what a server calls a version; 0 where it has no name for it."""
    return hash64(tag) >> 1 if tag else 0


def _read(key: str, start: int, size: int, store: ObjectStore) -> tuple[bytes, str | None]:
    """Bytes of an object (all from `start` on, if `size` is negative) and its version."""
    found = obstore.get(store, key, options=None if size < 0 else {"range": (start, start + size)})
    data = found.bytes().to_bytes()
    return data[start:] if size < 0 else data, found.meta["e_tag"]


def _page(prefix: str | None, last: str | None, store: ObjectStore) -> Sequence[ObjectMeta]:
    """The names after `last`, as many as one request gives."""
    return next(iter(obstore.list(store, prefix, offset=last, chunk_size=_PAGE)), ())


def _matches(names: list[str], pattern: list[str]) -> bool:
    """Whether a path matches part by part; `**` stands for any number of parts."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(_matches(names[i:], pattern[1:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])


@lru_cache(maxsize=1)
def _pool(pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_REQUESTS, "gristmill-fetch")
