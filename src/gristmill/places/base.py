"""What a place for bytes can do. `local.py` is one; another (object storage, say) is one more file like it.

What a remote place needs has shaped this: sizes and ranges come for many files in one call, so that a listing can give
the ones and requests side by side the others; a map is bytes in memory, wherever they were fetched from; nothing is
written in place.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import xxhash

if TYPE_CHECKING:
    import pyarrow as pa

    from gristmill.core.arrays import Bytes

_PART = 1 << 22


def read_at(file: IO[bytes], start: int, size: int) -> bytes:
    """`size` bytes of an open file from `start` on, or what there is of them."""
    file.seek(start)
    return file.read(size)


class Range(NamedTuple):
    """`size` bytes of a file from `start` on."""

    path: str
    start: int
    size: int


class Unfinished(NamedTuple):
    """An upload to `path` that was begun and has not ended: its parts are kept, paid for, and shown by no listing."""

    path: str
    began: str
    number: str


class Attempt(Protocol):
    """A file that is being written under a temporary name, unique across hosts, runs and attempts."""

    file: IO[bytes]

    def keep(self) -> None:
        """Let it appear under its own name, whole and for good."""

    def abandon(self) -> None:
        """Leave nothing of it behind."""


class Place(Protocol):
    """A file or a folder at an address. What cannot be done is an OSError whose `strerror` says why."""

    # Whether a map costs nothing before its bytes are touched. Where it does, tokens are fetched a part at a time, and
    # what is mapped is small: the indices and sums that lie beside them.
    maps: ClassVar[bool] = False
    path: str

    def __init__(self, path: str) -> None: ...

    # Looking.

    def exists(self) -> bool: ...
    def is_folder(self) -> bool: ...
    def is_link(self) -> bool: ...
    def is_file(self, *, links: bool = True) -> bool:
        """Whether it is a file, by itself or through links; without `links`, by itself alone."""

    def real(self) -> str:
        """Its one full name, whatever links lead here."""

    def size(self) -> int: ...
    @classmethod
    def sizes(cls, paths: Iterable[str]) -> Iterator[int]:
        """The bytes of many files, in order; where asking costs a request, by listing their folders."""

    def stamp(self) -> tuple[int, int]:
        """What differs once the bytes do: the size, and a number that moves with every change."""

    def identity(self) -> tuple[int, ...]:
        """What differs for another file of the same size and time, too: the size, and numbers of this machine's."""
        return self.stamp()

    def entries(self) -> list[tuple[str, bool]]:
        """What a folder holds, sorted by name: whether each is a folder itself; nothing where there is none."""

    def names(self) -> list[str]:
        """What a folder holds, sorted; nothing where there is none."""
        return [name for name, _ in self.entries()]

    def walk(self, *, links: bool) -> Iterator[tuple[str, list[str]]]:
        """A folder and those below it with the names in each, nothing that is hidden.

        With `links` they are followed, each folder is visited once, and the names are those of files alone.
        """

    def matching(self) -> list[str]:
        """The files that this address matches as a pattern, sorted; itself if it is one."""

    # Reading.

    def pinned(self) -> Place:
        """The file as it is when it is first read: where versions have names, no other one is."""
        return self

    def open(self, *, buffered: bool = True) -> IO[bytes]:
        """A stream that can seek; not buffered, for readers that jump about, it reads what they ask for and no more."""

    def read(self, start: int = 0, size: int = -1) -> bytes:
        """Bytes from `start` on: `size` of them, or all."""
        with self.open() as file:
            return read_at(file, start, size)

    def read_version(self, start: int, size: int) -> tuple[memoryview, int]:
        """Bytes from `start` on, and a number that is another once the file was replaced (0: not known)."""
        return memoryview(self.read(start, size)), 0

    def read_part(self, start: int, size: int) -> memoryview:
        """`size` bytes from `start` on, or what there is of them, of any version: for who knows their sums."""
        return self.read_version(start, size)[0]

    def read_into(self, start: int, to: memoryview) -> tuple[int, int]:
        """Fill memory with the bytes from `start` on: how many there were, and the number of their version."""
        data, version = self.read_version(start, len(to))
        to[: len(data)] = data
        return len(data), version

    @classmethod
    def fetch(cls, ranges: Iterable[Range]) -> Iterator[bytes]:
        """Bytes of many files, in order, or what there is of them; where asking costs a request, many at a time."""
        for path, wanted in itertools.groupby(ranges, lambda each: each.path):
            with cls(path).open(buffered=False) as file:
                yield from (read_at(file, start, size) for _, start, size in wanted)

    def checksum(self) -> str:
        """xxh3-128 of all bytes."""
        state = xxhash.xxh3_128()
        with self.open() as file:
            while part := file.read(_PART):
                state.update(part)
        return str(state.hexdigest())

    def map(self) -> tuple[int, int]:
        """All bytes at an address in memory, and how many; whoever asks gives them back with `memory.unmap`."""
        from gristmill.places.memory import map_copy

        return map_copy(self.read())

    def view(self) -> Bytes:
        """All bytes as an array, mapped for as long as somebody holds it or a slice of it."""
        from gristmill.places.memory import owned_view  # NumPy, which a command that only looks does not need

        return owned_view(*self.map())

    def brought(self) -> Bytes:
        """All bytes as an array that takes no memory of its own: mapped where they lie, or from a copy on a disk of
        this machine, which has no name and goes with the array.
        """
        if self.maps:
            return self.view()
        from gristmill.places.local import disk_errors
        from gristmill.places.uploads import mapped_file

        with disk_errors(f"a copy of {self.path}"), self.open() as whole:
            return mapped_file(lambda file: shutil.copyfileobj(whole, file, _PART))

    def arrow(self) -> pa.NativeFile:
        """A file as Arrow's readers take it: mapped where that is free, else read by the ranges that they ask for.

        To be read without Arrow's threads: one that lets go of it when Python is about to end aborts the process.
        """
        import pyarrow as pa

        return pa.BufferReader(pa.py_buffer(self.view())) if self.maps else pa.PythonFile(self.open(), "r")

    # Writing.

    def refusal(self) -> str | None:
        """Why nothing can ever be written to addresses of this kind; None where it can."""

    def attempt(self, buffering: int = -1) -> Attempt:
        """A new file that will take this name."""

    @contextlib.contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """A file for bytes that appears when the block ends well, and not at all when it does not."""
        attempt = self.attempt()
        try:
            yield attempt.file
            attempt.keep()
        except BaseException:
            attempt.abandon()
            raise

    def write(self, data: bytes | str) -> None:
        """Replace the content in one step."""
        with self.writing() as file:
            file.write(data.encode() if isinstance(data, str) else data)

    def filling(self, size: int) -> contextlib.AbstractContextManager[Bytes]:
        """A new file of `size` bytes as an array to fill, which appears when the block ends well."""

    def append(self, data: bytes) -> None:
        """Add to the end of a file that one process alone writes; a process that is killed may leave a part of it."""

    def link(self, source: Place) -> bool:
        """Be the same bytes as the file `source`; whether that took no copy of them."""

    def copy(self, source: Place) -> None:
        """Hold the bytes of the file `source`, whole or not at all, and need it no more."""
        with source.open() as whole, self.writing() as file:
            shutil.copyfileobj(whole, file, _PART)

    def make_folder(self) -> None: ...
    def remove(self) -> None:
        """Be no file any more, if it was one."""

    @classmethod
    def remove_all(cls, paths: Sequence[str]) -> None:
        """Many at once; where asking costs a request, many by one."""
        for path in paths:
            cls(path).remove()

    def remove_folder(self) -> None:
        """Be no folder any more, if it was an empty one."""

    def remove_leftover(self) -> None:
        """Be gone, if this is what a killed process left of an attempt to write."""

    def clear_leftovers(self) -> None:
        """Remove what killed processes left of their attempts to write this file."""

    def unfinished(self) -> Sequence[Unfinished]:
        """Uploads to this file, or below this folder, that have not ended; none where nothing is uploaded."""
        return ()

    def give_up(self, upload: Unfinished) -> None:
        """Have nothing left of an upload to this file."""
        return

    def is_lock(self) -> bool:
        """Whether a file can be a lock of ours."""

    def workshop(self) -> str:
        """A folder of this machine for work on what will be written here, where no other is given."""

    def lock(self, *, wait: bool) -> contextlib.AbstractContextManager[None]:
        """Hold the lock of this name, which is made where there is none; BlockingIOError where others hold it."""
