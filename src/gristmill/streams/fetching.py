"""Units of a DataFrame, fetched ahead of the lanes that read them: one query brings those of many lanes.

Each lane holds the turn that it reads and has the next one on its way, so that memory is that of two turns a lane. The
next turns are asked for together as soon as half of the lanes want one, or when a lane would have to wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.curate.documents import text_column
from gristmill.places.door import address_of
from gristmill.sources.base import InputFile, Mishaps, skippable
from gristmill.sources.batches import document_batch
from gristmill.streams.frame_queries import Columns
from gristmill.streams.turns import Blocks, First, Place, Read, numbered

# The most text, and the most ranges of keys, that one query is for, unless a lane's turn alone is more.
_QUERY_BYTES, _QUERY_UNITS = 256 << 20, 512
_MASK = (1 << 64) - 1


class Fetcher:
    """Turns that lanes will read, by queries of a thread of its own; one query runs at a time."""

    def __init__(self, fetch: Callable[[Sequence[int]], dict[int, pa.Table]], sizes: Ints) -> None:
        self._fetch, self._sizes = fetch, sizes
        self._lock, self._lanes, self._busy = threading.Lock(), 1, 0
        self._wished: dict[Place, Sequence[int]] = {}
        self._coming: dict[Place, Future[dict[Place, list[pa.Table]]]] = {}
        self._pool = ThreadPoolExecutor(1, "gristmill-frame")

    def begin(self, first: Mapping[Place, Sequence[int]]) -> None:
        """Fetch the first turns of lanes."""
        with self._lock:
            self._lanes = max(len(first), 1)
            self._wished.update(first)
            while self._wished:
                self._ask()

    def expect(self, place: Place, units: Sequence[int]) -> None:
        """Fetch a turn some time soon."""
        with self._lock:
            if units:
                self._wished[place] = units
            self._ask_if_many()

    def take(self, place: Place, units: Sequence[int]) -> list[pa.Table]:
        """The rows of each unit of a turn, waited for."""
        with self._lock:
            if place not in self._coming:
                self._wished = {place: units, **self._wished}
                self._ask()
            coming = self._coming.pop(place)
        return coming.result().pop(place)

    def _ask_if_many(self) -> None:
        if not self._busy and 2 * len(self._wished) >= self._lanes:
            self._ask()

    def _ask(self) -> None:
        """Begin a query for as many wishes as it may bring, the first of all among them."""
        asked: dict[Place, Sequence[int]] = {}
        size = count = 0
        for place, units in self._wished.items():
            size, count = size + int(self._sizes[list(units)].sum()), count + len(units)
            if asked and (size > _QUERY_BYTES or count > _QUERY_UNITS):
                break
            asked[place] = units
        if not asked:
            return
        self._busy += 1
        coming = self._pool.submit(self._answer, asked)
        for place in asked:
            del self._wished[place]
            self._coming[place] = coming

    def _answer(self, asked: Mapping[Place, Sequence[int]]) -> dict[Place, list[pa.Table]]:
        try:
            found = self._fetch(sorted({unit for units in asked.values() for unit in units}))
            return {place: [found[unit] for unit in units] for place, units in asked.items()}
        finally:
            with self._lock:
                self._busy -= 1
                self._ask_if_many()


@dataclass(frozen=True)
class FrameReader:
    """The turns of a loader's lanes, as documents of the source `name`, in blocks of `size` bytes."""

    fetcher: Fetcher
    name: str
    columns: Columns
    size: int

    def begin(self, first: Mapping[Place, First]) -> None:
        self.fetcher.begin({place: each.units for place, each in first.items()})

    def close(self) -> None:
        pass

    def turn(self, place: Place, units: Sequence[int], after: Sequence[int]) -> Blocks:
        return _FrameTurn(self, place, units, after)


@dataclass(frozen=True)
class _FrameTurn:
    reader: FrameReader
    place: Place
    units: Sequence[int]
    after: Sequence[int]

    def blocks(self, name: int, mishaps: Mishaps) -> Iterator[Read]:
        lane, turn = self.place
        tables = self.reader.fetcher.take(self.place, self.units)
        self.reader.fetcher.expect((lane, turn + len(self.units)), self.after)
        batches = (documents_of(table, self.reader.name, self.reader.columns, mishaps) for table in tables)
        return numbered(batches, self.reader.size)


def documents_of(table: pa.Table, source: str, columns: Columns, mishaps: Mishaps) -> pa.RecordBatch:
    """Rows as documents; one whose text is null is a mishap. Token ids stand as bytes, four each, where text would."""
    file = InputFile(source, address_of("DataFrame"), "DataFrame")
    keys = table.column("key").to_numpy()
    ids = _ids(table, source, keys)
    for row in np.flatnonzero(table.column("text").is_null().to_numpy()).tolist():
        id = ids[row].as_py()
        said = f"The row {id!r} of the DataFrame has no text under {columns.text!r} but null."
        mishaps.report(skippable(said, "Leave such rows out"), file, id, row)
    there = table.column("text").is_valid()
    kept = table.filter(there)
    text = kept.column("text").combine_chunks()
    texts = _id_bytes(text, columns.text) if columns.holds_ids else text.cast(pa.large_string())
    fields = {name: kept.column(f"field{i}").combine_chunks() for i, name in enumerate(columns.fields)}
    return document_batch(file, np.flatnonzero(there.to_numpy()), texts, ids.filter(there.combine_chunks()), fields)


def _ids(table: pa.Table, source: str, keys: Ints) -> pa.Array:
    """Ids of rows; one that has none is called by its key."""
    by_key = pa.array([f"{source}/{key & _MASK:016x}" for key in keys.tolist()], pa.string())
    return pc.coalesce(table.column("id").combine_chunks(), by_key) if "id" in table.column_names else by_key


def _id_bytes(lists: pa.Array, column: str) -> pa.Array:
    try:
        ids = lists.flatten().cast(pa.uint32())
    except pa.ArrowInvalid as error:
        raise SourceError(f"The column {column!r} has numbers that are no token ids ({error}).") from error
    if ids.null_count:
        raise SourceError(f"The column {column!r} has lists with null in them, which is no token id: take them out.")
    lengths = pc.list_value_length(lists).to_numpy()
    return text_column(ids.to_numpy().view(np.uint8), np.concatenate([[0], np.cumsum(4 * lengths, dtype=np.int64)]))
