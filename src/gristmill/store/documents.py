"""Documents, and their names: read from `.docs.parquet` by row group, found by `.ids` without a scan."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Hashes, Ints
from gristmill.core.errors import StoreError
from gristmill.core.hashing import hash_ids
from gristmill.core.html import counted
from gristmill.places.base import read_at
from gristmill.places.door import place_at
from gristmill.store.blocks import BLOCKS_SUFFIX, Sums, head_bytes, read_checked, read_head
from gristmill.store.files import Files, readable
from gristmill.store.format import DOCS_SUFFIX, IDS_HEADER, IDS_MAGIC, IDS_SUFFIX
from gristmill.store.sums import check_listed, read_sums
from gristmill.store.table import offsets

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# The row of a document's table: id, source, and what else its making noted.
Record = dict[str, object]
# Up to so many ids are looked for one by one; more are looked for together, in whole columns.
_FEW_IDS = 256
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@dataclass(frozen=True)
class Document:
    """One document: `tokens` as they lie in the store, EOS included."""

    id: str
    source: str
    tokens: npt.NDArray[np.generic]
    record: Record
    _decoder: Callable[..., str]

    def __repr__(self) -> str:
        return f"Document({self.id!r} of {self.source!r}: {counted(len(self.tokens), 'token')})"

    @property
    def text(self) -> str:
        """The decoded text, without EOS."""
        return self._decoder(self.tokens)


class NamedDocuments:
    """The documents of a store made by Gristmill."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.row_group = functools.lru_cache(maxsize=64)(self._read_row_group)
        self.layout = functools.lru_cache(maxsize=1024)(self._read_layout)
        self._listing = functools.lru_cache(maxsize=64)(read_sums)
        self._sums = functools.lru_cache(maxsize=16_384)(self._read_sums)

    def record(self, shard: int, row: int) -> Record:
        """The row of `.docs.parquet` for one document."""
        starts = self.layout(shard)
        group = int(np.searchsorted(starts, row, side="right")) - 1
        table = self.row_group(shard, group)
        (found,) = table.slice(row - int(starts[group]), 1).to_pylist()
        record: Record = found
        return record

    def rows_of(self, shard: int, hashes: Hashes) -> list[tuple[int, int]]:
        """(which hash, row) for each of the hashed ids, in rising order, that the shard may hold."""
        path, count = self._files.sibling(shard, IDS_SUFFIX), int(self._files.documents[shard])
        with readable(path):
            file = place_at(path).open(buffered=False)
        with file:
            ids = _Ids(file, path, count, self._sums(shard))
            if len(hashes) > _FEW_IDS:
                return ids.rows_of_many(hashes)
            return [(i, row) for i, wanted in enumerate(hashes.tolist()) for row in ids.rows(wanted)]

    def _read_sums(self, shard: int) -> Sums | None:
        """The sums of the blocks of a shard's `.ids`; none where an older version made the store."""
        checksum, path = self._files.blocks_checksum(shard), self._files.sibling(shard, BLOCKS_SUFFIX)
        if not checksum:
            return None
        with readable(path):
            head = place_at(path).read(0, head_bytes(int(self._files.documents[shard])))
        return read_head(head, checksum, path).ids.copy()

    def locate(self, ids: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """For each id the (shard, row) of its documents: one bisection a shard, then the id itself is compared."""
        found: dict[str, list[tuple[int, int]]] = {text: [] for text in ids}
        hashes = hash_ids(list(ids))
        order = np.argsort(hashes)
        hashes, ids = hashes[order], [ids[i] for i in order.tolist()]
        for shard in range(len(self._files)):
            places = sorted(self.rows_of(shard, hashes), key=lambda place: place[1])
            names = self._ids(shard, np.array([row for _, row in places], np.int64))
            for (i, row), name in zip(places, names, strict=True):
                if name == ids[i]:
                    found[ids[i]].append((shard, row))
        return found

    def tables(self, shard: int, begin: int, end: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of `.docs.parquet` for documents [begin, end) by row group: all columns, or id, source, and such of
        `columns` as there are.
        """
        starts = self.layout(shard)
        first, last = int(np.searchsorted(starts, begin, side="right")) - 1, int(np.searchsorted(starts, end))
        with self._open(shard) as file:
            there = file.schema_arrow.names
            read = there if columns is None else ["id", "source", *(name for name in columns if name in there)]
            for group, start in enumerate(starts[first:last].tolist(), first):
                table, skipped = file.read_row_group(group, columns=read, use_threads=False), max(begin - start, 0)
                yield table.slice(skipped, end - start - skipped)

    def _ids(self, shard: int, rows: Ints) -> list[str]:
        """The ids of rows in rising order; where many are asked for, of their row groups this column alone is read."""
        if len(rows) <= _FEW_IDS:
            return [str(self.record(shard, row)["id"]) for row in rows.tolist()]
        starts, names = self.layout(shard), list[str]()
        groups = np.searchsorted(starts, rows, side="right") - 1
        with self._open(shard) as file:
            for group in np.unique(groups).tolist():
                column = file.read_row_group(group, columns=["id"], use_threads=False).column("id")
                names += column.take(rows[groups == group] - int(starts[group])).to_pylist()
        return names

    def _open(self, shard: int) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        path = self._files.sibling(shard, DOCS_SUFFIX)
        try:
            return pq.ParquetFile(place_at(path).arrow())
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read ({error}): restore it or make the store again.") from error

    def _read_layout(self, shard: int) -> Ints:
        """Where the row groups of a shard begin; the file is compared with its sum before Parquet's reader sees it."""
        path = self._files.sibling(shard, DOCS_SUFFIX)
        folder, name = os.path.split(path)
        root, split = os.path.split(folder)
        check_listed(path, f"{split}/{name}", self._listing(root))
        with self._open(shard) as file:
            counts = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
        return offsets(np.array(counts, dtype=np.int64))

    def _read_row_group(self, shard: int, group: int) -> pa.Table:
        with self._open(shard) as file:
            return file.read_row_group(group, use_threads=False)

    def fields(self, shard: int) -> list[str]:
        """What is noted of each document of a shard: id, source, path, ..., and the fields that were carried."""
        with self._open(shard) as file:
            names: list[str] = file.schema_arrow.names
            return names

    def columns(self, shard: int, name: str) -> Iterator[pa.ChunkedArray]:
        """One field of all documents of a shard, a row group at a time; none is kept."""
        self.layout(shard)  # which compares the file with its sum
        with self._open(shard) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=[name], use_threads=False).column(0)


@dataclass(frozen=True)
class _Ids:
    """An opened `.ids` of `count` documents; what is read is checked by its sum, or at least by its order."""

    file: IO[bytes]
    path: str
    count: int
    sums: Sums | None

    def __post_init__(self) -> None:
        head = IDS_MAGIC + self.count.to_bytes(8, "little")
        size = self.file.seek(0, os.SEEK_END)
        if size != IDS_HEADER + 12 * self.count or read_at(self.file, 0, IDS_HEADER) != head:
            raise self._damaged(f"it does not hold {self.count:,} ids")

    def rows(self, wanted: int) -> list[int]:
        """The rows with one hash. Hashes are spread evenly: one read around the place where it should be is enough."""
        count = self.count
        guess, reach = wanted * count >> 64, 64 + 10 * math.isqrt(count)
        low, high = max(guess - reach, 0), min(guess + reach, count)
        known = self._hashes(low, high)
        if count and ((low and known[0] >= wanted) or (high < count and known[-1] <= wanted)):
            low, known = 0, self._hashes(0, count)
        first, last = (int(np.searchsorted(known, np.uint64(wanted), side)) for side in _SIDES)
        if first == last:
            return []
        rows = self._read(IDS_HEADER + 8 * count + 4 * (low + first), "<u4", last - first)
        if int(rows.max()) >= count:
            raise self._damaged(f"it names a document beyond its {count:,}")
        found: list[int] = rows.tolist()
        return found

    def rows_of_many(self, wanted: Hashes) -> list[tuple[int, int]]:
        """(which, row) of all that are here, of hashes in rising order: the whole column is looked up in them.

        Both are in order, so that neighbours are found in neighbouring places: four times as fast as in no order.
        """
        first, last = (np.searchsorted(wanted, self._hashes(0, self.count), side) for side in _SIDES)
        rows = self._read(IDS_HEADER + 8 * self.count, "<u4", self.count)
        if self.count and int(rows.max()) >= self.count:
            raise self._damaged(f"it names a document beyond its {self.count:,}")
        here = np.flatnonzero(last > first)
        places = zip(first[here].tolist(), last[here].tolist(), rows[here].tolist(), strict=True)
        return [(i, row) for begin, end, row in places for i in range(begin, end)]

    def _hashes(self, low: int, high: int) -> Hashes:
        hashes = self._read(IDS_HEADER + 8 * low, "<u8", high - low)
        if (hashes[1:] < hashes[:-1]).any():
            raise self._damaged("its hashes are not in rising order")
        return hashes

    def _read(self, at: int, dtype: str, count: int) -> Hashes:
        """`count` numbers at byte `at`."""
        size = np.dtype(dtype).itemsize * count
        if self.sums is None:
            return np.frombuffer(read_at(self.file, at, size), dtype)
        return np.frombuffer(read_checked(self.file, at, size, self.sums, self.path), dtype)

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.path} is damaged ({what}): restore it or make the store again.")


_TABLE_ROWS = 16_384


class NumberedDocuments:
    """The documents of foreign files, which have no names: `FILE:ROW`, FILE without folder and suffix."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def record(self, shard: int, row: int) -> Record:
        """The name by number, and the file."""
        name = self._files.stem(shard)
        return {"id": f"{name}:{row}", "source": name, "path": os.path.basename(self._files.path(shard))}

    def tables(self, shard: int, begin: int, end: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The names of documents [begin, end) by number; there is nothing else in any column."""
        import pyarrow as pa

        name = self._files.stem(shard)
        for first in range(begin, end, _TABLE_ROWS):
            rows = range(first, min(first + _TABLE_ROWS, end))
            yield pa.table({"id": [f"{name}:{row}" for row in rows], "source": [name] * len(rows)})

    def locate(self, ids: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """For each id the (shard, row) that it spells, whether the shard has such a row or not."""
        found: dict[str, list[tuple[int, int]]] = {text: [] for text in ids}
        wanted = {text: text.rpartition(":") for text in found}
        for shard in range(len(self._files)):
            stem = self._files.stem(shard)
            for text, (name, _, row) in wanted.items():
                if name == stem and row.isdigit():
                    found[text].append((shard, int(row)))
        return found
