"""Rows of memory-mapped Arrow files at any position, and the order in which they are read: arithmetic on row numbers.

piece = Piece(file=3, start=0, length=1000)      # rows 0 to 999 of file 3
piece.shuffled(key).part(500, 10)                # ten of them, from the middle of another order
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.arrow_messages import batch_extent
from gristmill.core.cached import cached_property
from gristmill.core.errors import SourceError
from gristmill.core.hashing import derive_key
from gristmill.order.permute import permute
from gristmill.places.base import Place
from gristmill.places.door import place_at

Row = dict[str, Any]
# Arrow's mark for the end of a stream: without it rows may be missing, which no reader would notice.
_END = b"\xff\xff\xff\xff\0\0\0\0"
# What is read at once to find the header of a message, and how many record batches of a file elsewhere are held.
_HEADER_BYTES, _FETCHED = 4096, 4


@dataclass(frozen=True)
class ArrowFile:
    """One file in Arrow's stream format, as it was when its rows were counted.

    `batches` are byte, bytes and rows of each record batch, end to end, of a file that cannot be mapped where it lies.
    """

    path: str
    size: int
    mtime_ns: int
    rows: int
    batches: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", array("q", self.batches))  # 24 bytes each, however many there are

    def difference(self) -> str | None:
        """How the file differs from what was counted, if it does (5 microseconds)."""
        try:
            size, changed = place_at(self.path).stamp()
        except FileNotFoundError:
            return f"{self.path} is missing"
        if size != self.size:
            return f"{self.path} has {size:,} bytes instead of {self.size:,}"
        return None if changed == self.mtime_ns else f"{self.path} was written again"


def count_rows(path: str) -> ArrowFile:
    """A file with its rows, by the headers of its record batches: about a millisecond for 500 MB of this machine."""
    place = place_at(path)
    size, changed = place.stamp()
    if place.read(max(size - len(_END), 0)) != _END:
        raise SourceError(f"{path} is cut off: make it again, download_mode='reuse_cache_if_exists' does.")
    if place.maps:
        return ArrowFile(path, size, changed, sum(map(len, _mapped_batches(path))))
    with _named(path):
        batches = array("q", itertools.chain.from_iterable(_extents(place, size)))
    return ArrowFile(path, size, changed, sum(batches[2::3]), batches)


def _extents(place: Place, size: int) -> Iterator[tuple[int, int, int]]:
    """Byte, bytes and rows of each record batch of a file elsewhere: a request of a few KiB each."""
    at = 0
    while at < size - len(_END):
        head = place.read(at, _HEADER_BYTES)
        (length,) = struct.unpack_from("<4xi", head)
        head = head if len(head) >= 8 + length else place.read(at, 8 + length)
        rows, body = batch_extent(memoryview(head)[8 : 8 + length])
        if length <= 0 or body < 0:
            raise pa.ArrowInvalid(f"the message at byte {at:,} has a length below 0")
        if rows is not None:
            yield at, 8 + length + body, rows
        elif at:
            raise pa.ArrowInvalid("it has dictionaries, which need a copy on this machine")
        at += 8 + length + body


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, struct.error) as error:
        raise SourceError(
            f"{path} cannot be read as an Arrow stream ({error}).", "Load with force_reindex=True."
        ) from error


def _mapped_batches(path: str) -> list[pa.RecordBatch]:
    """The record batches as views of the file's memory map, which lives as long as one of them does."""
    with _named(path), place_at(path).arrow() as source, pa.ipc.open_stream(source) as reader:
        _read_names(reader.schema)
        return list(reader)


def _read_names(fields: Iterable[pa.Field]) -> None:
    """Decode the names of fields and of their parts: pyarrow does so only when rows are made of them."""
    for field in fields:
        _ = field.name
        _read_names(field.type.field(i) for i in range(field.type.num_fields))


class MappedFile:
    """An open file: any of its rows, without a copy where it can be mapped; elsewhere a record batch at a time."""

    def __init__(self, file: ArrowFile) -> None:
        if difference := file.difference():
            raise SourceError(f"{difference}, it changed after its rows were counted: load with force_reindex=True.")
        self._file = file
        self._mapped = [] if file.batches else _mapped_batches(file.path)
        rows = file.batches[2::3] or [len(batch) for batch in self._mapped]
        self._ends = np.cumsum(rows, dtype=np.int64)
        self._batch = functools.lru_cache(maxsize=_FETCHED if file.batches else None)(self._checked)

    @cached_property
    def schema(self) -> pa.Schema:
        """What the file says of its columns."""
        if self._mapped:
            return self._mapped[0].schema
        place = place_at(self._file.path)
        with _named(self._file.path):
            head = place.read(0, self._file.batches[0]) if self._file.batches else place.read()
            return pa.ipc.open_stream(head + _END).schema

    def take(self, rows: Ints) -> Iterator[pa.RecordBatch]:
        """These rows in this order, as slices: one for each run of neighbours in a record batch."""
        batches = np.searchsorted(self._ends, rows, side="right")
        breaks = np.flatnonzero((np.diff(batches) != 0) | (np.diff(rows) != 1)) + 1
        for first, end in itertools.pairwise([0, *breaks.tolist(), len(rows)]):
            batch = self._batch(int(batches[first]))
            yield batch.slice(int(rows[first] - self._ends[batches[first]]) + len(batch), end - first)

    def _checked(self, number: int) -> pa.RecordBatch:
        """A record batch, checked in full before its first row is looked at: a damaged one may point anywhere."""
        batch = self._mapped[number] if self._mapped else self._fetched(number)
        try:
            batch.validate(full=True)
        except pa.ArrowException as error:
            raise SourceError(
                f"{self._file.path} is damaged in record batch {number:,} ({error}).", "Load with force_reindex=True."
            ) from error
        return batch

    def _fetched(self, number: int) -> pa.RecordBatch:
        start, size, rows = self._file.batches[3 * number : 3 * number + 3]
        with _named(self._file.path):
            batch = pa.ipc.read_record_batch(
                pa.ipc.read_message(place_at(self._file.path).read(start, size)), self.schema
            )
        if len(batch) != rows:
            raise SourceError(f"{self._file.path} has other rows than were counted.", "Load with force_reindex=True.")
        return batch


@dataclass(frozen=True)
class Piece:
    """`length` rows of one file; `start` is the first, unless `shuffles` (first place, places, key) order them anew.

    Each shuffle permutes what the one before it left, so shuffling and taking parts may follow each other freely.
    """

    file: int
    start: int
    length: int
    shuffles: tuple[tuple[int, int, int], ...] = ()

    def part(self, first: int, length: int) -> Piece:
        """`length` rows from place `first` on."""
        if not self.shuffles:
            return replace(self, start=self.start + first, length=length)
        *before, (place, places, key) = self.shuffles
        return replace(self, length=length, shuffles=(*before, (place + first, places, key)))

    def shuffled(self, key: int) -> Piece:
        """The same rows in the order named by `key`."""
        return replace(self, shuffles=(*self.shuffles, (0, self.length, key)))

    def rows(self, first: int, end: int) -> Ints:
        """The file's row numbers at the places [first, end)."""
        places: Ints = np.arange(first, end, dtype=np.int64)
        for place, size, key in reversed(self.shuffles):
            places = permute(places + place, size, key)
        return places + self.start


def epoch_key(seed: int, epoch: int) -> int:
    """The key of a seed's order in an epoch."""
    return derive_key(seed, "epoch", epoch) if epoch else seed


def shuffle_pieces(pieces: Sequence[Piece], seed: int, rows: bool, epoch: int = 0) -> tuple[Piece, ...]:
    """The pieces in the order named by `seed` and epoch, and if asked for the rows inside each of them too."""
    key = epoch_key(seed, epoch)
    order = permute(np.arange(len(pieces)), len(pieces), derive_key(key, "files")).tolist() if pieces else []
    if not rows:
        return tuple(pieces[i] for i in order)
    return tuple(pieces[i].shuffled(derive_key(key, "rows", i)) for i in order)


def share_rows(pieces: Sequence[Piece], low: Fraction, high: Fraction, epoch: int = 0) -> tuple[Piece, ...]:
    """The rows from share `low` to share `high` of all, of 0 to 1."""
    total = sum(piece.length for piece in pieces)
    return between_rows(pieces, int(total * low), int(total * high))


def between_rows(pieces: Iterable[Piece], low: int, high: int, epoch: int = 0) -> tuple[Piece, ...]:
    """The rows at the places [low, high) of all pieces in a row."""
    found, end = [], 0
    for piece in pieces:
        begin, end = end, end + piece.length
        first, last = max(low, begin), min(high, end)
        if first < last:
            found.append(piece.part(first - begin, last - first))
    return tuple(found)


def numbered(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Pieces as long as these whose rows are their places: moved as these are, they say where rows lay before."""
    found, end = [], 0
    for piece in pieces:
        found.append(Piece(piece.file, end, piece.length))
        end += piece.length
    return tuple(found)
