"""Parts of files that lie elsewhere, kept on a disk of this machine and shared by all of its processes.

One file a part, named by content (`eviction.py`): it appears whole, by a rename, and whoever has it mapped goes on
reading after it was removed. There are no counters, no shared memory, and no locks that outlive a process. A folder is
a cache's by a file in it that says so; nothing is removed that does not have one of the cache's own names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import itertools
import json
import math
import os
import secrets
import socket
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import xxhash

from gristmill.core.arrays import Bytes
from gristmill.core.errors import ConfigError
from gristmill.core.hashing import hash64
from gristmill.core.locks import Lock
from gristmill.core.usage import began
from gristmill.places.eviction import (
    OTHERS,
    SUM_BYTES,
    Owner,
    Part,
    part_of,
    set_of,
    sets_for,
    unfinished,
    victims,
    writer_of,
)  # fmt: skip
from gristmill.places.memory import map_descriptor, owned_view

MARKER, LOCKS = "gristmill-cache.json", "gristmill-cache.lock"
# Below this a file each costs more than it saves.
SMALLEST = 64 << 10
# What nobody has touched for so long was left by a process of another machine.
_OLD_SECONDS = 3600.0
_POLL_SECONDS = 0.01
# Linux gives a file pages as large as what is written at once, and memory that has lain idle in such large pieces is
# dear on a virtual machine, whose host has to find it first: a MiB at once takes 2 to 3 ms, in four parts 0.5.
_WRITE = 256 << 10
# A lock on one byte of a file, which is that of an open file and not of a process, since threads want one too.
_FLOCK = struct.Struct("hhqqi")
Waits = Callable[[Sequence[Part]], Sequence[float]]


@functools.lru_cache(maxsize=16)
def cache_at(folder: str, limit: int) -> Cache:
    """The cache in a folder, one a process and limit."""
    return Cache(Path(folder), limit)


class Cache:
    """At most `limit` bytes of parts below `folder`. Safe to use from many threads and processes."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self.limit = folder, limit
        self._sets = _claimed(folder, sets_for(limit))
        self._lock, self._numbers, self._fails = Lock(), itertools.count(), False

    def keeps(self, part: Part) -> bool:
        """Whether a part is one that the cache would hold."""
        return part.end - part.start >= SMALLEST and part.size <= self.limit // self._sets

    def get(self, part: Part, *, checked: bool = False) -> Bytes | None:
        """The bytes of a part, mapped; None if it is not here. Its own sum is compared if nobody else checks it."""
        data = self._mapped(part)
        if data is None:
            return None
        held = data[:-SUM_BYTES]
        whole = len(held) == part.end - part.start
        if whole and (checked or xxhash.xxh3_128_digest(held.data) == data[-SUM_BYTES:].tobytes()):
            return held
        self.remove(part)
        return None

    def _mapped(self, part: Part) -> Bytes | None:
        """The whole file of a part; None where there is none that can be read."""
        try:
            fd = os.open(self._path(part), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            address, size = map_descriptor(fd)
        except OSError:
            return None
        finally:
            os.close(fd)
        return owned_view(address, size) if size else np.empty(0, np.uint8)

    def remove(self, part: Part) -> None:
        """Hold a part no more: it was damaged."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(part))

    def add(self, part: Part, data: Bytes, waits: Waits) -> Bytes:
        """Keep a part and give back its bytes as they are mapped; where it cannot be kept, those that came.

        `waits` tells how long each of some parts is not needed: what waits longest goes first, it may be this one.
        """
        if self._fails or not self.keeps(part):
            return data
        with self._lock:  # one at a time: no process is ever further over the limit than by one part
            try:
                kept = self._added(part, data, waits)
            except OSError as error:
                self._fail(error)
                return data
        return data if kept is None else kept

    def _added(self, part: Part, data: Bytes, waits: Waits) -> Bytes | None:
        """The bytes of a part as they are mapped now; None where it is not kept, or there is no room for a map."""
        folder = self._set(part)
        temporary = f"{folder}/{unfinished(part, _owner(os.getpid()), next(self._numbers))}"
        fd = _made(temporary, os.O_RDWR | os.O_EXCL)
        try:
            if not self._make_room(folder, part, waits):
                return None
            with open(fd, "wb", closefd=False) as file:
                os.posix_fallocate(fd, 0, len(data) + SUM_BYTES)
                for first in range(0, len(data), _WRITE):
                    file.write(data.data[first : first + _WRITE])
                file.write(xxhash.xxh3_128_digest(data.data))
            with contextlib.suppress(FileNotFoundError):  # somebody took it for a leftover
                os.rename(temporary, self._path(part))
            with contextlib.suppress(OSError):
                return owned_view(*map_descriptor(fd))[:-SUM_BYTES]
            return None
        finally:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _make_room(self, folder: str, part: Part, waits: Waits) -> bool:
        """Remove what is needed last until all that is there and announced fits; False if that is the part itself."""
        names, share = os.listdir(folder), self.limit // self._sets
        parts = [*(found for found in map(part_of, names) if found and found != part), part]
        others = (name for name in names if name.endswith(".tmp"))
        announced = sum(_announced(Path(folder, name)) for name in others) - part.size
        # Where nothing has to go, nobody is asked when parts are needed.
        if sum(each.size for each in parts) + announced <= share:
            return True
        gone = victims(parts, self._waits(parts, waits), share, announced)
        if part in gone:
            return False
        for each in gone:
            self.remove(each)
        return True

    def _waits(self, parts: Sequence[Part], waits: Waits) -> list[float]:
        """How long parts are not needed; where that is not known, those that were kept longest go first."""
        return [
            OTHERS + _age(Path(self._path(part))) if math.isnan(wait) else wait
            for part, wait in zip(parts, waits(parts), strict=True)
        ]

    def _fail(self, error: OSError) -> None:
        self._fails = True
        warnings.warn(
            f"The cache {self._folder} takes no more ({error.strerror or error}): what is fetched from now on is not "
            "kept there. Free some space, or give it a smaller cache_bytes.",
            stacklevel=2,
        )

    @contextlib.contextmanager
    def fetching(self, *parts: Part) -> Iterator[None]:
        """For one process of this machine at a time; when it was another's turn, parts may be here by now.

        Whoever fetches has bytes of one file locked, which the hashes of the parts' names say: two of 2^62 may share
        one. They are locked in rising order, so that of two who want the same ones none waits for the other for ever.
        """
        try:
            fd = _made(f"{self._folder}/{LOCKS}", os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # the disk takes no lock: it may be fetched twice
            yield
            return
        try:
            for byte in sorted(hash64(part.name) >> 2 for part in parts):
                _lock(fd, byte)
            yield
        finally:
            _unlock(fd)
            os.close(fd)

    def _set(self, part: Part) -> str:
        return f"{self._folder}/{set_of(part, self._sets):03x}"

    def _path(self, part: Part) -> str:
        return f"{self._set(part)}/{part.name}"


def _announced(path: Path) -> int:
    """What an unfinished file will take; 0 for one that was left behind, which is removed, and for any other."""
    found = writer_of(path.name)
    if found and _at_work(found[1], path):
        return found[0].size
    if found:
        with contextlib.suppress(OSError):
            path.unlink()
    return 0


def _lock(fd: int, byte: int) -> None:
    """Wait until nobody else has a byte locked; the program's end, and a disk without locks, are not waited for."""
    wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    while threading.main_thread().is_alive():
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, wanted)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                return
        time.sleep(_POLL_SECONDS)


def _unlock(fd: int) -> None:
    """Give back all locks of an open file: a process that was forked meanwhile has it open, too, and may live long."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))


def _made(path: str, flags: int) -> int:
    """A file of a cache, opened and made where there is none; so is the folder that it is in."""
    try:
        return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _claimed(folder: Path, sets: int) -> int:
    """Make a folder a cache's, if it is new or empty; how many sets it has. One with other things in it is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [name for name in os.listdir(folder) if not name.startswith(f".{MARKER}.")]
        if MARKER not in others:
            if others:
                raise ConfigError(
                    f"{folder} holds files that are not a cache's ({sorted(others)[0]}): give an empty folder as cache."
                )
            _write_marker(folder, sets)
        found = json.loads((folder / MARKER).read_text())["sets"]
    except OSError as error:
        raise ConfigError(f"{folder} cannot be a cache ({error.strerror}): give another folder.") from error
    except (ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, int) or not 1 <= found <= 1 << 16:
        raise ConfigError(
            f"{folder / MARKER} is not the mark of a cache: remove that folder, or give another as cache."
        )
    return found


def _write_marker(folder: Path, sets: int) -> None:
    """By a link, which fails where another process was first: its word counts."""
    temporary = folder / f".{MARKER}.{secrets.token_hex(8)}"
    temporary.write_text(json.dumps({"gristmill": "cache", "sets": sets}) + "\n")
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, folder / MARKER)
    finally:
        temporary.unlink()


@functools.lru_cache(maxsize=2)
def _owner(pid: int) -> Owner:
    return Owner(_host(), pid, began(pid) or 0)


@functools.lru_cache(maxsize=1)
def _host() -> str:
    return f"{hash64(socket.gethostname()) & 0xFFFFFFFF:08x}"


def _at_work(owner: Owner, path: Path) -> bool:
    """Whether somebody may still be writing an unfinished file."""
    if owner == _owner(os.getpid()):
        return True
    if owner.host == _host():
        return began(owner.pid) == owner.began
    return not _is_old(path)


def _is_old(path: Path) -> bool:
    return _age(path) > _OLD_SECONDS


def _age(path: Path) -> float:
    """Seconds since a file was written; 0 for one that is not there (yet)."""
    try:
        return max(time.time() - path.stat().st_mtime, 0)
    except OSError:
        return 0.0
