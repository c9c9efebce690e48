"""Rows of a DataFrame as Parquet files in the work folder, written by whatever worker holds them.

Rows come sorted, those of a bucket together, and a bucket is a file. What the file holds depends on its rows alone:
batches are cut anew, by bytes and rows, wherever the ones that came were cut. Its name is its attempt's own, and only
whoever gets the answer knows it: a second attempt disturbs nobody.
"""

from __future__ import annotations

import platform
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints
from gristmill.core.errors import EngineError
from gristmill.places.address import Address
from gristmill.places.base import Attempt
from gristmill.places.door import place_at

# A row group, whichever is reached first; a longer row is one by itself.
GROUP_BYTES, GROUP_ROWS = 8 << 20, 16_384
# What of a row's hash is summed: sums of 2^39 rows fit.
LOW_BITS = (1 << 24) - 1
# The columns before a row's own: its bucket, its hash, and whether its id is that of its text.
_BUCKET, _HASH, _BY_TEXT, _OWN = 0, 1, 2, 3
_ID = 0


class Written(NamedTuple):
    """A bucket as an attempt has written it; `xor` and `low` are of the hashes of its rows."""

    bucket: int
    name: str
    size: int
    rows: int
    xor: int
    low: int


@dataclass(frozen=True)
class RowFiles:
    """Where rows are written, and the names of their columns: id, text, fields."""

    folder: Address
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Written]:
        """Write rows that come sorted by bucket; one answer a bucket."""
        if isinstance(self.folder, Path) and not place_at(self.folder).is_folder():
            raise EngineError(
                f"{platform.node()} does not see {self.folder}: choose an output or a work folder that all nodes see."
            )
        pieces = (piece for batch in batches for piece in _by_bucket(batch))
        for bucket, of_bucket in groupby(pieces, key=lambda piece: piece[0]):
            yield self._written(bucket, (piece for _, piece in of_bucket))

    def _written(self, bucket: int, pieces: Iterator[pa.RecordBatch]) -> Written:
        name = f"{bucket:08x}{secrets.token_hex(8)}.parquet"
        place = place_at(self.folder / name)
        attempt, rows, xor, low = place.attempt(), 0, 0, 0
        try:
            file, copies = _RowFile(attempt), Copies()
            for piece in pieces:
                hashes = piece.column(_HASH).to_numpy()
                rows, xor, low = rows + len(piece), xor ^ int(np.bitwise_xor.reduce(hashes)), low + low_sum(hashes)
                file.add(_named(piece, self.columns, copies))
            file.close()
        except BaseException:
            attempt.abandon()
            raise
        attempt.keep()
        return Written(bucket, name, place.size(), rows, xor, low)


def low_sum(hashes: Ints) -> int:
    """The sum of the low bits of hashes, which no order changes."""
    return int((hashes & LOW_BITS).sum())


def _by_bucket(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """A batch in stretches of one bucket."""
    buckets = batch.column(_BUCKET).to_numpy()
    edges = np.flatnonzero(np.diff(buckets)) + 1
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(batch)], strict=True):
        if end > begin:
            yield int(buckets[begin]), batch.slice(begin, end - begin)


@dataclass
class Copies:
    """Tells rows of equal text apart where the text makes the id: the second is `ID~2`."""

    last: str | None = None
    count: int = 1

    def numbered(self, ids: pa.Array, by_text: pa.Array) -> pa.Array:
        """Ids that come sorted, each once."""
        equal = pc.equal(ids, _shifted(ids, self.last)).fill_null(False)
        again = pc.and_(equal, by_text).to_numpy(zero_copy_only=False)
        made = ids.to_pylist() if again.any() else []
        for row in np.flatnonzero(again).tolist():
            follows = row == 0 or again[row - 1]
            self.count = self.count + 1 if follows else 2
            made[row] = f"{made[row]}~{self.count}"
        if len(ids):
            self.last, self.count = ids[-1].as_py(), self.count if again[-1] else 1
        return pa.array(made, pa.large_string()) if made else ids


def _shifted(ids: pa.Array, first: str | None) -> pa.Array:
    """Each row's predecessor."""
    return pa.concat_arrays([pa.array([first], ids.type), ids.slice(0, max(len(ids) - 1, 0))]).slice(0, len(ids))


def _named(piece: pa.RecordBatch, names: Sequence[str], copies: Copies) -> pa.RecordBatch:
    """A row's own columns, under their names and in types that no setting of a session changes."""
    columns = [_plain(column) for column in piece.columns[_OWN:]]
    columns[_ID] = copies.numbered(columns[_ID], piece.column(_BY_TEXT))
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary(kind):
        return column.cast(pa.large_binary())
    return column.cast(pa.timestamp(kind.unit, "UTC")) if pa.types.is_timestamp(kind) and kind.tz else column


def row_sizes(batch: pa.RecordBatch) -> Ints:
    """Bytes of each row: those of its texts, and 8 for any other value."""
    sizes = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        sizes += pc.binary_length(column).fill_null(0).to_numpy() + 8 if wide else 8
    return sizes


@dataclass
class _RowFile:
    """A Parquet file whose row groups are cut by bytes and rows."""

    attempt: Attempt
    held: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        begin, ends = 0, np.append(0, np.cumsum(row_sizes(batch)))
        while begin < len(batch):
            room = ends[begin] + GROUP_BYTES - self.bytes
            end = min(int(np.searchsorted(ends, room, "right")) - 1, begin + GROUP_ROWS - self.rows)
            if end <= begin and self.rows:
                self._flush()
                continue
            end = max(end, begin + 1)
            self.held.append(batch.slice(begin, end - begin))
            self.rows, self.bytes = self.rows + end - begin, self.bytes + int(ends[end] - ends[begin])
            begin = end

    def _flush(self) -> None:
        """One chunk a column: where a page ends may not depend on how rows came."""
        table = pa.Table.from_batches(self.held).combine_chunks()
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.attempt.file, table.schema, compression="lz4", use_dictionary=False)
        self.writer.write_table(table, row_group_size=len(table))
        self.held, self.rows, self.bytes = [], 0, 0

    def close(self) -> None:
        if self.rows:
            self._flush()
        if self.writer:
            self.writer.close()
