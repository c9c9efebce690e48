"""Units of tokens to shards: which documents each shard holds is arithmetic on their lengths, then each is one job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Ints, Mask
from gristmill.core.texts import runs
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.places.ranges import copy_runs
from gristmill.stages.relation import Relation, opened
from gristmill.stages.tokens import field_name
from gristmill.stages.work import Facts, UnitJob
from gristmill.store.manifest import SPLITS
from gristmill.store.seekable import library_versions
from gristmill.store.writer import shard_cuts, write_shard

# Tokens gathered at a time: 64 MiB at most, of whole documents.
_CHUNK_TOKENS = 1 << 24
_ROWS_AT_ONCE = 1 << 20
# So many shards are worth a word, and these bytes are what a large one may have.
_MANY_SHARDS, _LARGE_BYTES = 1000, 2 * 10**9
_PLACES = ("doc", "bytes", "unit", "start", "length", "val", "shuffle", "cut")


@dataclass(frozen=True)
class Range:
    """Rows of a layout file: documents in the order of the store, of both splits."""

    file: Address
    first: int
    stop: int


@dataclass
class _Filling:
    """The shard of a split that takes the next document."""

    split: str
    number: int = 0
    tokens: int = 0
    ranges: list[Range] = field(default_factory=list)


def advice(shards: int, tokens_per_shard: int, token_bytes: int) -> str | None:
    """What somebody whose store has very many shards should know; no byte depends on it."""
    larger = _LARGE_BYTES // token_bytes
    if shards <= _MANY_SHARDS or tokens_per_shard >= larger:
        return None
    fewer = -(-shards * tokens_per_shard // larger)
    return (
        f"{shards:,} shards will be written, of {tokens_per_shard:,} tokens at most: with tokens_per_shard {larger:,} "
        f"they would be about {fewer:,} of {_LARGE_BYTES / 1e9:.0f} GB, which are quicker to list, to open and to copy."
    )


def plan_shards(files: Sequence[Address], tokens_per_shard: int) -> list[tuple[str, int, list[Range]]]:
    """Split, number and rows of each shard, by `shard_cuts`."""
    shards: list[tuple[str, int, list[Range]]] = []
    filling = {split: _Filling(split) for split in SPLITS}
    for file in files:
        for first, lengths, val in _lengths(file):
            for split, rows in (("train", np.flatnonzero(~val)), ("val", np.flatnonzero(val))):
                shards += _fill(filling[split], file, first + rows, lengths[rows], tokens_per_shard)
    last = [(shard.split, shard.number, shard.ranges) for shard in filling.values() if shard.ranges]
    return sorted(shards + last, key=lambda shard: (SPLITS.index(shard[0]), shard[1]))


def _lengths(file: Address) -> Iterator[tuple[int, Ints, Mask]]:
    """First row, lengths and split of a million documents at a time."""
    first = 0
    with opened(file) as found:
        for batch in found.iter_batches(_ROWS_AT_ONCE, columns=["length", "val"], use_threads=False):
            yield first, batch.column("length").to_numpy(), batch.column("val").to_numpy(zero_copy_only=False)
            first += len(batch)


def _fill(
    shard: _Filling, file: Address, rows: Ints, lengths: Ints, limit: int
) -> Iterator[tuple[str, int, list[Range]]]:
    """Put documents into the open shard, giving out each that is full."""
    for i, (first, stop) in enumerate(shard_cuts(lengths, limit, shard.tokens)):
        if i:
            yield shard.split, shard.number, shard.ranges
            shard.number, shard.tokens, shard.ranges = shard.number + 1, 0, []
        if first < stop:
            # One range with the last where both lie in one file: rows between them are of the other split.
            joins = shard.ranges and shard.ranges[-1].file == file
            begin = shard.ranges.pop().first if joins else int(rows[first])
            shard.ranges.append(Range(file, begin, int(rows[stop - 1]) + 1))
            shard.tokens += int(lengths[first:stop].sum())


@dataclass(frozen=True, kw_only=True)
class PlanJob(UnitJob):
    """Which rows of a layout each shard holds: split, number and ranges (file, first, stop), as its figures.

    It goes once through the lengths of all documents, a million at a time.
    """

    suffixes: ClassVar[Sequence[str]] = ()
    layout: Relation
    tokens_per_shard: int

    @property
    def depends(self) -> object:
        return ["plan", self.layout.fingerprint, [file.name for file in self.layout.files], self.tokens_per_shard]

    def __call__(self) -> Facts:
        files = {file: i for i, file in enumerate(self.layout.files)}
        return {"shards": [
            [split, number, [[files[part.file], part.first, part.stop] for part in ranges]]
            for split, number, ranges in plan_shards(self.layout.files, self.tokens_per_shard)
        ]}  # fmt: skip

    def planned(self, facts: Facts) -> Iterator[tuple[str, int, tuple[Range, ...]]]:
        """The figures of this job, as they were before they were JSON."""
        for split, number, ranges in facts["shards"]:
            yield split, number, tuple(Range(self.layout.files[i], first, stop) for i, first, stop in ranges)


@dataclass(frozen=True)
class ShardJob:
    """Writes a shard of the store with its side files; the marker has its manifest entry and part of `sums.json`.

    `name` is that of its tokens, relative to the manifest.
    """

    root: Address
    name: str
    split: str
    number: int
    ranges: tuple[Range, ...]
    upstream: str
    fields: tuple[str, ...]
    dtype: str
    eos: int
    compression: str
    tokens: Address
    folder: Address
    size: int = 1

    @property
    def marker(self) -> Address:
        return self.folder / f"{self.split}-{self.number:05d}.json"

    @property
    def outputs(self) -> list[Address]:
        return [self.root / self.name]

    @property
    def depends(self) -> object:
        rows = [(part.file.name, part.first, part.stop) for part in self.ranges]
        packed = library_versions() if self.compression == "zstd" else {}
        return ["shard-2", self.split, self.number, rows, self.upstream, self.dtype, self.eos, packed]

    def __call__(self) -> Facts:
        entry, sums = write_shard(self.root, self.name, self.dtype, self._documents())
        return {"entry": vars(entry), "sums": sums}

    def _documents(self) -> Iterator[tuple[npt.NDArray[Any], Ints, pa.Table]]:
        """Tokens end to end, lengths and rows of the shard's documents, some at a time."""
        for table in self._tables():
            tokens = gather(self.tokens, table, np.dtype(self.dtype))
            lengths = table.column("length").to_numpy()
            if "cut" in table.column_names:  # a document goes on in the other split: EOS over its last token here
                tokens[(np.cumsum(lengths) - 1)[table.column("cut").to_numpy()]] = self.eos
            yield tokens, lengths, self._named(table)

    def _named(self, table: pa.Table) -> pa.Table:
        """What the documents' table says of these documents, carried fields by their own names."""
        kept = [name for name in table.column_names if name not in _PLACES]
        own = {field_name(i): name for i, name in enumerate(self.fields)}
        return table.select(kept).rename_columns([own.get(name, name) for name in kept])

    def _tables(self) -> Iterator[pa.Table]:
        """The shard's documents, as many at a time as 16 M tokens."""
        for part in self.ranges:
            for table in rows_between(part.file, part.first, part.stop):
                own = table.filter(table["val"] if self.split == "val" else pc.invert(table["val"]))
                ends = np.append(0, np.cumsum(own.column("length").to_numpy()))
                yield from (own.slice(first, stop - first) for first, stop in runs(ends, _CHUNK_TOKENS))


def rows_between(file: Address, first: int, stop: int) -> Iterator[pa.Table]:
    """The rows [first, stop) of a Parquet file, by row groups."""
    at = 0
    with opened(file) as found:
        for group in range(found.num_row_groups):
            rows = found.metadata.row_group(group).num_rows
            low, high = max(first - at, 0), min(stop - at, rows)
            if low < high:
                table = found.read_row_group(group, use_threads=False).slice(low, high - low)
                yield table.replace_schema_metadata(None)  # what an engine noted there is no part of a store
            at += rows


def gather(folder: Address, table: pa.Table, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The tokens of these documents end to end; each unit's file is looked for once, and runs are copied whole."""
    unit, start, length = (table.column(name).to_numpy() for name in ("unit", "start", "length"))
    place = np.cumsum(length) - length
    out = np.empty(int(length.sum()), dtype)
    follows = (unit[1:] == unit[:-1]) & (start[1:] == start[:-1] + length[:-1])
    heads = np.flatnonzero(np.concatenate([[True], ~follows])) if len(unit) else np.zeros(0, np.int64)
    sizes = np.diff(np.append(place[heads], len(out)))
    for number in np.unique(unit[heads]):
        own = np.flatnonzero(unit[heads] == number)
        runs = np.column_stack([start[heads[own]], sizes[own], place[heads[own]]])
        copy_runs(place_at(folder / f"{number:08x}.bin"), runs, out)
    return out
