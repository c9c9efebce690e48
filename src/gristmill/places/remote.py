"""Objects in S3, Google Storage, Azure and behind http(s): read by ranges and written whole, through obstore.

How they are reached, by whose credentials and with how much patience, `clients.py` and `storage.py` say; how they are
streamed, `streams.py`; how a file goes up, `uploads.py`, and what a kill leaves of it, `multipart.py`; who may write,
`lease.py`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import IO, TYPE_CHECKING, TypeVar, cast

from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, EngineError, GristmillError
from gristmill.core.extras import extra
from gristmill.core.hashing import hash64
from gristmill.places import multipart
from gristmill.places.base import Place, Range, Unfinished, read_at
from gristmill.places.bodies import bytes_of, part_read, read_to, version_of, version_read, whole
from gristmill.places.clients import asked, was_forked
from gristmill.places.errands import errands
from gristmill.places.lease import Holder, held
from gristmill.places.local import disk_errors
from gristmill.places.patterns import matches
from gristmill.places.retrying import status_of
from gristmill.places.streams import REQUESTS, STREAM_BYTES, Flow, Stream, pool_of
from gristmill.places.traffic import traffic
from gristmill.places.uploads import PART, PARTS_AT_ONCE, Upload, part_size

with extra("remote", "An address in object storage"):
    import obstore
    from obstore import exceptions

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta, PutMode
    from obstore.store import ObjectStore

    from gristmill.core.arrays import Bytes

# What S3 copies by itself.
_SERVER_COPIES = 5 << 30
_PAGE = 1000
# Of an object that is pinned its first bytes are known: enough to tell what kind of file it is.
_OPENING_BYTES = 8
Result = TypeVar("Result")


class Remote(Place):
    """An object, or the objects below a prefix."""

    def __init__(self, path: str) -> None:
        scheme, _, rest = path.rstrip("/").partition("://")
        self.path = f"{scheme}://{rest}"
        # A store that joins others names them as seen from itself.
        parts = (posixpath.normpath(rest) if "/../" in rest else rest).split("/")
        first = 2 if scheme == "az" else 1  # account and container, where others have a bucket
        self._root, self._key = f"{scheme}://{'/'.join(parts[:first])}", "/".join(parts[first:])

    def _asked(self, request: Callable[[ObjectStore], Result], *, parts: bool = False) -> Result:
        return asked(self.path, self._root, request, parts=parts)

    # Looking.

    def exists(self) -> bool:
        return self.is_file() or self.is_folder()

    def is_file(self, *, links: bool = True) -> bool:
        try:
            with _looking(self.path):
                self.head()
        except FileNotFoundError:
            return False
        return True

    @property
    def _lists(self) -> bool:
        return self._root.startswith(("s3:", "gs:", "az:"))

    def is_folder(self) -> bool:
        with _looking(self.path):
            return self._lists and any(True for _ in self._listed())

    def is_link(self) -> bool:
        return False

    def real(self) -> str:
        return self.path

    def size(self) -> int:
        return int(self.head()["size"])

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
        found = self.head()
        return int(found["size"]), version_of(found["e_tag"])

    def entries(self) -> list[tuple[str, bool]]:
        if not self._lists:
            return []
        if was_forked():
            return [(name, folder) for name, folder in errands().ask("entries", self.path).value]
        found = self._asked(lambda store: obstore.list_with_delimiter(store, self._key))
        # Some servers keep the folders of objects that are gone.
        kept = (prefix for prefix in found["common_prefixes"] if Remote(f"{self._root}/{prefix}").is_folder())
        folders = [(posixpath.basename(prefix), True) for prefix in kept]
        objects = filter(self._is_object, found["objects"])
        return sorted([*folders, *((posixpath.basename(entry["path"]), False) for entry in objects)])

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
        return sorted(path for path in found if matches(path.split("/"), self.path.split("/")))

    def head(self) -> ObjectMeta:
        """Size, version and time of the object; in a forked process, without its time."""
        if was_forked():
            return cast("ObjectMeta", errands().ask("head", self.path).value)
        return self._asked(partial(_head, self._key))

    def _listed(self) -> Iterator[ObjectMeta]:
        """What lies below this prefix, with path, size and e_tag; each page is tried again by itself."""
        if was_forked():
            yield from errands().ask("listed", self.path).value
            return
        last, prefix = None, f"{self._key}/" if self._key else None
        while True:
            page = self._asked(partial(_page, prefix, last))
            yield from filter(self._is_object, page)
            if len(page) < _PAGE:
                return
            last = page[-1]["path"]

    def _is_object(self, entry: ObjectMeta) -> bool:
        """Not the empty mark of a folder, which some tools leave and listings name without its slash."""
        return entry["path"] != self._key and (entry["size"] > 0 or Remote(f"{self._root}/{entry['path']}").is_file())

    # Reading.

    def pinned(self) -> Remote:
        return _Pinned(self.path)

    def open(self, *, buffered: bool = True) -> IO[bytes]:
        raw = Flow(self) if buffered else Stream(self)
        return io.BufferedReader(raw, STREAM_BYTES) if buffered else raw  # type: ignore[return-value]

    def read(self, start: int = 0, size: int = -1) -> bytes:
        return self.read_version(start, size)[0].tobytes()

    def read_version(self, start: int, size: int) -> tuple[memoryview, int]:
        if was_forked():
            version, came = errands().ask("read_version", self.path, start, size)
            data = memoryview(came)
            traffic.add(requests=1)
        else:
            data, tag = self._asked(partial(version_read, self._key, start, size))
            version = version_of(tag)
        traffic.add(fetched_bytes=len(data))
        return data, int(version)

    def read_part(self, start: int, size: int) -> memoryview:
        if was_forked():
            return self.read_version(start, size)[0]
        data = self._asked(partial(part_read, self._key, start, size))
        traffic.add(fetched_bytes=len(data))
        return data

    def read_into(self, start: int, to: memoryview) -> tuple[int, int]:
        if was_forked():
            return super().read_into(start, to)
        size, tag = self._asked(partial(read_to, self._key, start, to))
        traffic.add(fetched_bytes=size)
        return size, version_of(tag)

    def read_tagged(self, start: int, size: int, tag: str | None) -> bytes:
        """A range of the object that has this tag: FileExistsError where another lies there by now."""
        if was_forked():
            return errands().ask("read_tagged", self.path, start, size, tag).data
        options: GetOptions = {"range": (start, start + size)}
        if tag is not None:
            options["if_match"] = tag
        data = self._asked(lambda store: bytes_of(obstore.get(store, self._key, options=options)))
        traffic.add(fetched_bytes=len(data))
        return data.tobytes()

    @classmethod
    def fetch(cls, ranges: Iterable[Range]) -> Iterator[bytes]:
        """Sixteen requests at a time, given in order; at most twice as many are asked for before they are taken."""
        pool, asked = pool_of(os.getpid()), deque[Future[bytes]]()
        for wanted in ranges:
            asked.append(pool.submit(cls(wanted.path).read, wanted.start, wanted.size))
            if len(asked) >= 2 * REQUESTS:
                yield asked.popleft().result()
        while asked:
            yield asked.popleft().result()

    # Writing.

    def refusal(self) -> str | None:
        return None if self._lists else "http addresses are read only"

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """What fails is said of this object; http is refused before it is asked."""
        with disk_errors(self.path):
            if refusal := self.refusal():
                raise OSError(errno.EROFS, refusal, self.path)
            yield

    def write(self, data: bytes | str) -> None:
        with self._changing():
            self._put(data.encode() if isinstance(data, str) else data)

    def attempt(self, buffering: int = -1) -> Upload:
        with self._changing():
            return Upload(self._send, buffering)

    def _send(self, file: IO[bytes]) -> None:
        """All of a file of this machine: at once, or in parts that are tried again one by one."""
        size = file.seek(0, os.SEEK_END)
        with self._changing():
            if size <= PART:
                self._put(read_at(file, 0, size))
            else:
                self._asked(partial(self._send_parts, file, part_size(size)), parts=True)

    def _send_parts(self, file: IO[bytes], part: int, store: ObjectStore) -> None:
        file.seek(0)
        obstore.put(store, self._key, file, use_multipart=True, chunk_size=part, max_concurrency=PARTS_AT_ONCE)

    def _put(self, data: bytes, mode: PutMode = "overwrite") -> str:
        """The object's new version."""
        put = partial(obstore.put, path=self._key, file=data, mode=mode, use_multipart=False)
        return str(self._asked(put)["e_tag"])

    @contextlib.contextmanager
    def filling(self, size: int) -> Iterator[Bytes]:
        import numpy as np

        with self.writing() as file, disk_errors(self.path):
            os.posix_fallocate(file.fileno(), 0, size)
            data = np.memmap(file, np.uint8, "r+", shape=(size,))
            yield data
            data.flush()

    def append(self, data: bytes) -> None:
        """By writing it anew: an object has no end to add to."""
        self.write(self.read() + data)

    def link(self, source: Place) -> bool:
        """A copy, which the server makes where it can."""
        self.copy(source)
        return False

    def copy(self, source: Place) -> None:
        """By the server within a bucket; from elsewhere, and beyond what a server copies, through here."""
        if isinstance(source, Remote) and source._root == self._root and source.size() <= _SERVER_COPIES:
            with self._changing():
                self._asked(lambda store: obstore.copy(store, source._key, self._key))
        else:
            super().copy(source)

    def make_folder(self) -> None:
        """There are none: an object's name is all that a folder is."""

    def remove_folder(self) -> None:
        pass

    def remove(self) -> None:
        with self._changing(), contextlib.suppress(FileNotFoundError):
            self._asked(lambda store: obstore.delete(store, self._key))

    @classmethod
    def remove_all(cls, paths: Sequence[str]) -> None:
        """A thousand by a request, in each bucket."""
        for root, some in itertools.groupby(map(cls, paths), lambda place: place._root):
            keys = [place._key for place in some]
            for at in range(0, len(keys), _PAGE):
                with cls(root)._changing():
                    asked(root, root, partial(obstore.delete, paths=keys[at : at + _PAGE]))

    def remove_leftover(self) -> None:
        self.remove()

    def unfinished(self) -> list[Unfinished]:
        return list(multipart.unfinished(self.path, self._root, self._key))

    def give_up(self, upload: Unfinished) -> None:
        multipart.give_up(self._root, upload)

    def clear_leftovers(self) -> None:
        """What is written waits on the disk of the process that writes it; what that has sent of it is given up."""
        with contextlib.suppress(OSError, GristmillError):  # not all who may write may list
            for upload in self.unfinished():
                self.give_up(upload)

    def workshop(self) -> str:
        """One for each address, with what this machine keeps of Gristmill."""
        kept = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return os.path.join(kept, "gristmill", "work", f"{hash64(self.path):016x}")

    # Locking.

    def is_lock(self) -> bool:
        found = self.current()
        return found is not None and Holder.of(found[0]) is not None

    @contextlib.contextmanager
    def lock(self, *, wait: bool) -> Iterator[None]:
        with self._changing():
            pass
        with held(self, wait=wait):
            yield

    def current(self) -> tuple[bytes, str] | None:
        """What the object holds and its version, if it is there."""
        try:
            return self._asked(lambda store: whole(obstore.get(store, self._key)))
        except FileNotFoundError:
            return None

    def put_if(self, data: bytes, version: str | None) -> str:
        """Replace this version of the object, or make it where there is none; FileExistsError where that is not so."""
        return self._put(data, "create" if version is None else {"e_tag": version})


class _Pinned(Remote):
    """One version of an object: how long it is, and how it begins, is asked for once, by one request.

    There may be one for each file of a large stream, so that it holds little.
    """

    @cached_property
    def _opening(self) -> tuple[int, str | None, bytes]:
        """Size, version and first bytes."""
        if was_forked():
            found = super().head()
            return found["size"], found["e_tag"], self.read_tagged(0, _OPENING_BYTES, found["e_tag"])
        found, opening = self._asked(partial(_opened, self._key))
        traffic.add(fetched_bytes=len(opening))
        return found["size"], found["e_tag"], opening

    def pinned(self) -> Remote:
        return self

    def head(self) -> ObjectMeta:
        size, tag, _ = self._opening
        return cast("ObjectMeta", {"path": self._key, "size": size, "e_tag": tag})

    def read(self, start: int = 0, size: int = -1) -> bytes:
        whole, tag, opening = self._opening
        if start == 0 and 0 <= size <= len(opening):
            return opening[:size]
        return self.read_tagged(start, min(size, whole - start) if size >= 0 else whole - start, tag)


def _opened(key: str, store: ObjectStore) -> tuple[ObjectMeta, bytes]:
    """What an object is, and its first bytes."""
    found = obstore.get(store, key, options={"range": (0, _OPENING_BYTES)})
    return found.meta, bytes_of(found).tobytes()


def _head(key: str, store: ObjectStore) -> ObjectMeta:
    """A server says why it answers 400 (expired credentials, say) in a body, which an answer to HEAD has not."""
    try:
        return obstore.head(store, key)
    except exceptions.BaseError as error:
        if status_of(error) != 400:
            raise
        return obstore.get(store, key, options={"range": (0, 1)}).meta


@contextlib.contextmanager
def _looking(path: str) -> Iterator[None]:
    """Whether something is there is asked everywhere, by callers that expect yes or no: trouble is told to the user."""
    try:
        yield
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise ConfigError(f"{path} cannot be looked for ({error.strerror}): give the right ones.") from error
    except OSError as error:
        raise EngineError(f"{path} cannot be looked for ({error.strerror}): try again.") from error


def _page(prefix: str | None, last: str | None, store: ObjectStore) -> Sequence[ObjectMeta]:
    """The names after `last`, as many as one request gives."""
    return next(iter(obstore.list(store, prefix, offset=last, chunk_size=_PAGE)), ())
