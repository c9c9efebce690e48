"""A DataFrame counted, and cut into units: ranges of keys, each with its rows, bytes and checksums.

The cut depends on the rows and the number of lanes alone: neither on partitions nor on the order of rows.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, SourceError
from gristmill.core.hashing import fingerprint
from gristmill.streams.fetching import Fetcher, FrameReader
from gristmill.streams.frame_queries import (
    BUCKET_BITS,
    Columns,
    Session,
    as_table,
    count_buckets,
    rows_within,
)
from gristmill.streams.turns import Reader
from gristmill.streams.units import LEAST, block_bytes, unit_bytes

# Equal keys are never apart: this many bytes of them would have to be held at once.
_MOST_BYTES = 1 << 30
_LOW = (1 << 32) - 1


@dataclass(frozen=True, eq=False)
class Census:
    """Of each bucket that has rows: its number, how many, their bytes, the sum and the xor of their checksums.

    A bucket is the rows whose keys begin with the same `bits` bits.
    """

    table: Ints
    bits: int = BUCKET_BITS

    @property
    def bytes(self) -> int:
        """Bytes of text, or 4 for each token id."""
        return int(self.table[:, 2].sum())

    @property
    def rows(self) -> int:
        """Rows of the DataFrame."""
        return int(self.table[:, 1].sum())

    def cut(self, size: int) -> Census:
        """Buckets of about `size` bytes, as far as these can be put together; so are their own, cut again."""
        wanted = -(-self.bytes // size) if self.bytes else 1
        bits = max((wanted - 1).bit_length(), 1)  # no number is shifted by 64
        return self.coarse(self.bits - bits) if bits < self.bits else self

    def coarse(self, bits: int) -> Census:
        """Buckets whose numbers differ in the last `bits` bits only, as one."""
        numbers = self.table[:, 0] >> bits
        first = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        added = np.add.reduceat(self.table[:, 1:4], first)
        xors = np.bitwise_xor.reduceat(self.table[:, 4], first)
        return Census(np.column_stack([numbers[first], added, xors]), self.bits - bits)


def take_census(session: Session, columns: Columns) -> Census:
    """Count a DataFrame, which must not be empty; what comes back is 40 bytes a bucket, a million at most.

    What is kept is as fine as the smallest units: 10 MB for 1 GB of text, 42 MB from 4 GB on.
    """
    found = session.ask(lambda frame: count_buckets(frame, columns))
    if not found.num_rows:
        raise ConfigError("The DataFrame is empty: there is nothing to train on.")
    table = np.column_stack([column.to_numpy() for column in found.columns]).astype(np.int64, copy=False)
    census = Census(table[np.argsort(table[:, 0])])
    if (most := int(census.table[:, 2].max())) > _MOST_BYTES:
        known = f"equal keys: is {columns.id!r} an id?" if columns.id else "equal texts: name a column by id_col=."
        raise ConfigError(f"{most >> 20:,} MiB of the DataFrame have nearly {known}")
    return census.cut(LEAST)


class FrameUnits:
    """The units of a DataFrame: unit i holds the rows whose keys begin with the i-th prefix that has any."""

    def __init__(self, name: str, session: Session, columns: Columns, census: Census, lanes: int) -> None:
        self.name, self.columns, self._session = name, columns, session
        self.block_bytes = block_bytes(lanes)
        self._census = census.cut(unit_bytes(census.bytes, lanes))
        self._shift = 64 - self._census.bits

    def __len__(self) -> int:
        return len(self._census.table)

    @property
    def sizes(self) -> Ints:
        """Bytes of each unit."""
        return self._census.table[:, 2]

    @property
    def fingerprint(self) -> str:
        """Which rows, by their checksums, cut how; names of columns are not in it."""
        table = np.ascontiguousarray(self._census.table, "<i8")
        rows = hashlib.sha256(table.tobytes()).hexdigest()
        return fingerprint(["frame", self._shift, self.block_bytes, self.columns.holds_ids, rows])

    @property
    def waits(self) -> bool:
        """Its reader asks ahead by itself, for many lanes at once."""
        return False

    def reader(self, hold: int) -> Reader:
        """One for the lanes of a loader, which asks for the units of many of them by one query."""
        return FrameReader(Fetcher(self.fetch, self.sizes), self.name, self.columns, hold * self.block_bytes)

    def fetch(self, units: Sequence[int]) -> dict[int, pa.Table]:
        """The rows of some units, by one query, each in the order of (key, checksum); other rows than were counted are
        an error."""
        wanted = np.unique(np.asarray(units, np.int64))
        expected = self._census.table[wanted]
        prefixes = expected[:, 0].tolist()
        table = self._session.ask(lambda frame: as_table(rows_within(frame, self.columns, prefixes, self._shift)))
        keys, sums = (table.column(name).to_numpy() for name in ("key", "whole"))
        order = np.lexsort((sums, keys))
        edges = np.searchsorted(keys[order] >> self._shift, [*prefixes, prefixes[-1] + 1])
        rows = [order[begin:end] for begin, end in itertools.pairwise(edges.tolist())]
        for own, counted in zip(rows, expected, strict=True):
            self._check(counted, sums[own])
        return {unit: table.take(own) for unit, own in zip(wanted.tolist(), rows, strict=True)}

    def _check(self, expected: Ints, sums: Ints) -> None:
        number, rows, _, low, xor = expected.tolist()
        if (len(sums), int((sums & _LOW).sum()), int(np.bitwise_xor.reduce(sums))) != (rows, low, xor):
            here = f"{len(sums):,} rows" if len(sums) != rows else "other contents of its rows"
            raise SourceError(
                f"The DataFrame does not give the same rows twice: the part of it whose keys begin with {number} had "
                f"{rows:,} rows when it was counted, and now has {here}. Write it as a table, or take out what changes "
                "from one query to the next (now(), uuid(), limit, a table that is being written)."
            )
