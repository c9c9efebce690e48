"""The files of an opened store as columns: names, header sizes, counts. No Python object a shard is kept."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import PathLike
from gristmill.core.arrays import Ints, Mask
from gristmill.core.errors import StoreError
from gristmill.core.hashing import hash64
from gristmill.core.values import kinds_of
from gristmill.places.base import Range
from gristmill.places.door import fetch, kind_of, place_at, sizes
from gristmill.store.format import beside

# A foreign file is known by its size and 64 fixed blocks of 4 KiB: reading it all would cost hours at a terabyte.
_SAMPLE_BLOCKS, SAMPLE_BYTES = 64, 4096


class Location(TypedDict):
    """The arguments with which `gristmill.open` would open a store again."""

    path: str | list[str]
    dtype: NotRequired[str | None]
    eos: NotRequired[int | None]


class FileRow(NamedTuple):
    """One token file, and what the manifest knows of it and of the files beside it, if it has one."""

    name: str
    header: int
    tokens: int
    documents: int
    checksum: str = ""
    compressed: int = 0
    idx_checksum: str = ""
    blocks_checksum: str = ""


@dataclass(frozen=True, eq=False)
class Files:
    """`.bin` files in order: `root` joined to `names[i]`, `header[i]` bytes before `tokens[i]` tokens.

    documents[i] is -1 where it is not known without a scan; `checksums` identify the content of each shard of a store
    made by Gristmill; `compressed[i]` is the size of a compressed file in bytes, 0 where the tokens lie as they are.
    The sums of `.idx` and `.blocks` are empty where the manifest has none, and for all foreign files.
    """

    root: str
    names: npt.NDArray[np.bytes_]
    header: Ints
    tokens: Ints
    documents: Ints
    checksums: npt.NDArray[np.bytes_]
    compressed: Ints
    idx_checksums: npt.NDArray[np.bytes_]
    blocks_checksums: npt.NDArray[np.bytes_]

    def __len__(self) -> int:
        return len(self.names)

    def path(self, i: int) -> str:
        """Where shard i's tokens are."""
        return os.path.join(self.root, os.fsdecode(bytes(self.names[i])))

    def sibling(self, i: int, suffix: str) -> str:
        """The file beside shard i's tokens with another suffix: `.idx`, `.docs.parquet`, ..."""
        return beside(self.path(i), suffix)

    def stem(self, i: int) -> str:
        """Shard i's file name without folder and suffix."""
        return os.path.basename(self.sibling(i, ""))

    def idx_checksum(self, i: int) -> str:
        """xxh3-128 of shard i's `.idx`, or nothing where it is not known."""
        return bytes(self.idx_checksums[i]).decode()

    def blocks_checksum(self, i: int) -> str:
        """xxh3-128 of the head of shard i's `.blocks`, or nothing where it has none."""
        return bytes(self.blocks_checksums[i]).decode()

    def size(self, i: int, itemsize: int) -> int:
        """The bytes that shard i's file must have."""
        return int(self.compressed[i]) or int(self.header[i]) + int(self.tokens[i]) * itemsize

    def fetched(self) -> Mask:
        """Which shards lie where a file cannot be mapped without being copied."""
        if ":" not in self.root and b":" not in self.names.tobytes():
            return np.zeros(len(self), dtype=np.bool_)
        folders = [name.rpartition(b"/")[0] for name in self.names.tolist()]
        away = {name: not kind_of(os.path.join(self.root, os.fsdecode(name))).maps for name in set(folders)}
        return np.array([away[name] for name in folders], dtype=np.bool_)

    def check_sizes(self, itemsize: int) -> None:
        """Name the first shard that is missing or of the wrong size.

        Those that are fetched are left alone: a request each would make opening slow, and what comes is measured.
        """
        looked_at = np.flatnonzero(~self.fetched()).tolist()
        every = sizes(self.path(i) for i in looked_at)
        for i in looked_at:
            try:
                found = next(every)
            except OSError as error:
                raise StoreError(f"Shard {self.path(i)} is missing ({error.strerror}): bring it back.") from error
            if found != self.size(i, itemsize):
                raise StoreError(
                    f"Shard {self.path(i)} has {found:,} bytes, {self.size(i, itemsize):,} were expected: "
                    "it was cut off or replaced; restore it or make the store again."
                )


@contextlib.contextmanager
def readable(path: object) -> Iterator[None]:
    """Say of a file of a store that it is not there, that this process may not read it, or that it does not come."""
    try:
        yield
    except OSError as error:
        if isinstance(error, PermissionError):
            advice = "give this process the right to read it, by its credentials or the file's permissions"
        else:
            advice = (
                "bring the file back" if isinstance(error, FileNotFoundError) else "look what ails it, and try again"
            )
        raise StoreError(f"{error.filename or path} cannot be opened ({error.strerror}): {advice}.") from error


def make_files(root: PathLike, rows: Sequence[FileRow]) -> Files:
    """The rows as columns."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(FileRow._fields)
    return Files(os.fspath(root), *map(_column, columns, kinds_of(FileRow).values()))


def _column(values: Sequence[str | int], kind: object) -> npt.NDArray[Any]:
    if kind is str:
        return np.array([os.fsencode(str(value)) for value in values], dtype=np.bytes_)
    return np.array(values, dtype=np.int64)


def joined(parts: Sequence[Files]) -> Files:
    """Several stores' files as one, by absolute names."""
    folder = functools.cache(lambda parent: place_at(parent).real())
    paths = (os.path.split(part.path(i)) for part in parts for i in range(len(part)))
    names = [os.fsencode(os.path.join(folder(parent), name)) for parent, name in paths]
    columns = [field.name for field in fields(Files) if field.name not in ("root", "names")]
    rest = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    return Files(root="", names=np.array(names, dtype=np.bytes_), **rest)


def sampled_checksum(path: PathLike) -> str:
    """What identifies a foreign file: xxh3 of its size and of 64 evenly spread blocks of 4 KiB."""
    size, blocks = spread_blocks(path)
    return f"{hash64(size.to_bytes(8, 'little') + b''.join(block for _, block in blocks)):016x}"


def spread_blocks(path: PathLike, multiple: int = 1) -> tuple[int, list[tuple[int, bytes]]]:
    """A file's size, and place and bytes of 64 blocks of 4 KiB that begin at multiples of `multiple`, evenly spread.

    In a small file, which is read at once, they overlap or are the same.
    """
    name, size = os.fspath(path), place_at(path).size()
    last = -(-max(size - SAMPLE_BYTES, 0) // multiple) * multiple
    starts = [last * i // (_SAMPLE_BLOCKS - 1) // multiple * multiple for i in range(_SAMPLE_BLOCKS)]
    if size > _SAMPLE_BLOCKS * SAMPLE_BYTES:
        found = fetch(Range(name, at, SAMPLE_BYTES) for at in starts)
        return size, list(zip(starts, found, strict=True))
    data = place_at(path).read()
    return size, [(at, data[at : at + SAMPLE_BYTES]) for at in starts]
