"""What answers bring: all of it or an error, as obstore's memory or into the caller's own."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from gristmill.core.extras import extra
from gristmill.core.hashing import hash64

with extra("remote", "An address in object storage"):
    import obstore

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import ObjectStore

# What is put together of an answer at least before it is copied: four calls a MiB, and no memory worth mentioning.
_PIECE = 256 << 10


def whole(found: GetResult) -> tuple[bytes, str]:
    """All of an object and its version."""
    return bytes_of(found).tobytes(), str(found.meta["e_tag"])


def bytes_of(found: GetResult) -> memoryview:
    """The bytes of an answer, if they are as many as it said; obstore gives what came, and another try may give all."""
    data = memoryview(found.bytes())
    _check_length(found, len(data))
    return data


def _check_length(found: GetResult, came: int) -> None:
    start, end = found.range
    if came != end - start:
        raise OSError(errno.EIO, f"the server sent {came:,} bytes for {end - start:,}")


def version_of(tag: str | None) -> int:
    """A number for what a server calls a version; 0 where it has no name for it."""
    return hash64(tag) >> 1 if tag else 0


def version_read(key: str, start: int, size: int, store: ObjectStore) -> tuple[memoryview, str | None]:
    """Bytes of an object (all from `start` on, if `size` is negative) and its version."""
    found = obstore.get(store, key, options=None if size < 0 else {"range": (start, start + size)})
    data = bytes_of(found)
    return data[start:] if size < 0 else data, found.meta["e_tag"]


def part_read(key: str, start: int, size: int, store: ObjectStore) -> memoryview:
    """Bytes of an object, for less than `version_read` costs, which is asked where they are fewer: it says why."""
    data = memoryview(obstore.get_range(store, key, start=start, length=size))
    return data if len(data) == size else version_read(key, start, size, store)[0]


def read_to(key: str, start: int, to: memoryview, store: ObjectStore) -> tuple[int, str | None]:
    """Bytes of an object, copied piece by piece as they come: how many there were, and its version."""
    found, came = obstore.get(store, key, options={"range": (start, start + len(to))}), 0
    for piece in found.stream(min_chunk_size=_PIECE):
        if came + len(piece) > len(to):
            raise OSError(errno.EIO, f"the server sent more than the {len(to):,} bytes that it was asked for")
        to[came : came + len(piece)] = piece
        came += len(piece)
    _check_length(found, came)
    return came, found.meta["e_tag"]
