"""Rows of memory-mapped Arrow files at any position, and the order in which they are read: arithmetic on row numbers.

piece = Piece(file=3, start=0, length=1000)      # rows 0 to 999 of file 3
piece.shuffled(key).part(500, 10)                # ten of them, from the middle of another order
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.core.hashing import derive_key
from gristmill.order.permute import permute
from gristmill.places.door import place_at

Row = dict[str, Any]
# Arrow's mark for the end of a stream: without it rows may be missing, which no reader would notice.
_END = b"\xff\xff\xff\xff\0\0\0\0"


@dataclass(frozen=True)
class ArrowFile:
    """One file in Arrow's stream format, as it was when its rows were counted."""

    path: str
    size: int
    mtime_ns: int
    rows: int

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
    """A file with its rows, by the headers of its record batches: about a millisecond for 500 MB."""
    size, changed = place_at(path).stamp()
    if place_at(path).read(max(size - len(_END), 0)) != _END:
        raise SourceError(f"{path} is cut off: make it again, download_mode='reuse_cache_if_exists' does.")
    return ArrowFile(path, size, changed, sum(map(len, _mapped_batches(path))))


def _mapped_batches(path: str) -> list[pa.RecordBatch]:
    """The record batches as views of the file's memory map, which lives as long as one of them does."""
    try:
        with place_at(path).arrow() as source, pa.ipc.open_stream(source) as reader:
            _read_names(reader.schema)
            return list(reader)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"{path} cannot be read as an Arrow stream ({error}).", "Load with force_reindex=True."
        ) from error


def _read_names(fields: Iterable[pa.Field]) -> None:
    """Decode the names of fields and of their parts: pyarrow does so only when rows are made of them."""
    for field in fields:
        _ = field.name
        _read_names(field.type.field(i) for i in range(field.type.num_fields))


class MappedFile:
    """An open file: any of its rows, without a copy."""

    def __init__(self, file: ArrowFile) -> None:
        if difference := file.difference():
            raise SourceError(f"{difference}, it changed after its rows were counted: load with force_reindex=True.")
        self._path, self._batches = file.path, _mapped_batches(file.path)
        self._ends = np.cumsum([len(batch) for batch in self._batches], dtype=np.int64)
        self._checked: set[int] = set()

    def take(self, rows: Ints) -> Iterator[pa.RecordBatch]:
        """These rows in this order, as slices: one for each run of neighbours in a record batch."""
        batches = np.searchsorted(self._ends, rows, side="right")
        breaks = np.flatnonzero((np.diff(batches) != 0) | (np.diff(rows) != 1)) + 1
        for first, end in itertools.pairwise([0, *breaks.tolist(), len(rows)]):
            batch = self._batch(int(batches[first]))
            yield batch.slice(int(rows[first] - self._ends[batches[first]]) + len(batch), end - first)

    def _batch(self, number: int) -> pa.RecordBatch:
        """A record batch, checked in full before its first row is looked at: a damaged one may point anywhere."""
        batch = self._batches[number]
        if number not in self._checked:
            try:
                batch.validate(full=True)
            except pa.ArrowException as error:
                raise SourceError(
                    f"{self._path} is damaged in record batch {number:,} ({error}).", "Load with force_reindex=True."
                ) from error
            self._checked.add(number)
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


def shuffle_pieces(pieces: Sequence[Piece], seed: int, rows: bool) -> tuple[Piece, ...]:
    """The pieces in the order named by `seed`, and if asked for the rows inside each of them too."""
    order = permute(np.arange(len(pieces)), len(pieces), derive_key(seed, "files")).tolist() if pieces else []
    if not rows:
        return tuple(pieces[i] for i in order)
    return tuple(pieces[i].shuffled(derive_key(seed, "rows", i)) for i in order)


def shard_pieces(pieces: Sequence[Piece], num_shards: int, index: int) -> tuple[Piece, ...]:
    """Part `index` of `num_shards` runs of rows that differ by one row at most, whatever the number of files."""
    total = sum(piece.length for piece in pieces)
    low, high = total * index // num_shards, total * (index + 1) // num_shards
    return tuple(_between(pieces, low, high))


def _between(pieces: Iterable[Piece], low: int, high: int) -> Iterator[Piece]:
    """The rows at the places [low, high) of all pieces in a row."""
    end = 0
    for piece in pieces:
        begin, end = end, end + piece.length
        first, last = max(low, begin), min(high, end)
        if first < last:
            yield piece.part(first - begin, last - first)


def numpy_rows(batch: pa.RecordBatch) -> list[Row]:
    """Rows in which numbers and lists of numbers without nulls are read-only views of the file."""
    names = batch.schema.names
    if not names:
        return [{} for _ in range(len(batch))]
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_numpy_values, batch.columns), strict=True)]


def _numpy_values(column: pa.Array) -> Sequence[object]:
    kind = column.type
    if _is_number(kind) and not column.null_count:
        return list(column.to_numpy())
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if listed and _is_number(kind.value_type) and not column.null_count and not column.values.null_count:
        flat, edges = column.values.to_numpy(), column.offsets.to_pylist()
        return [flat[first:end] for first, end in itertools.pairwise(edges)]
    values: list[object] = column.to_pylist()
    return values


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
