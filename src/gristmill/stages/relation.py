"""The rows that passes and queries leave, as Parquet files, and those of them that concern a unit.

A unit's number is its source's ordinal and its place there, so that a source that grows does not move the others; the
numbers of its documents begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints
from gristmill.curate.dedup.drops import UnitDrops
from gristmill.curate.ledger import dropped_schema
from gristmill.places.address import Address
from gristmill.places.door import place_at


def document_schema(fields: Sequence[str]) -> pa.Schema:
    """Documents between stages. `hash_*` are the halves of the text's digest, `edits` a bit for each step."""
    numbers = ("row", "id_hash", "bytes", "content_hash", "hash_hi", "hash_lo", "keep_key")
    names = [("doc", pa.int64()), *((name, pa.string()) for name in ("id", "source", "path")),
             *((name, pa.int64()) for name in numbers), ("edits", pa.int64()), ("text", pa.large_string())]  # fmt: skip
    return pa.schema([*names, *((name, pa.string()) for name in fields)])


@contextmanager
def pass_writers(outputs: Sequence[Address], schema: pa.Schema) -> Iterator[tuple[pq.ParquetWriter, pq.ParquetWriter]]:
    """The first two files of a pass over a unit: documents that stay, and the account of those that left."""
    with table_writer(outputs[0], schema) as kept, table_writer(outputs[1], dropped_schema()) as dropped:
        yield kept, dropped


@contextmanager
def table_writer(path: Address, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A Parquet file that appears whole: a row group each batch; lz4, since texts are read back once or twice."""
    codes = [name for name in ("source", "path", "rule", "reason") if name in schema.names]
    with (
        place_at(path).writing() as file,
        pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=codes, write_statistics=["doc"]) as writer,
    ):
        yield writer


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema out of a batch, null where it has none of that name."""
    known = set(batch.schema.names)
    columns = [batch.column(field.name) if field.name in known else pa.nulls(len(batch), field.type)
               for field in schema]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def opened(file: Address) -> Iterator[pq.ParquetFile]:
    """A Parquet file, wherever it lies; to be read without Arrow's threads (see `Place.arrow`)."""
    with place_at(file).arrow() as source, pq.ParquetFile(source) as found:
        yield found


def batches_of(paths: Address | Sequence[Address], columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The row groups of a file, or of one after the other, each as one record batch."""
    for path in paths if isinstance(paths, Sequence) else [paths]:
        with opened(path) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=columns, use_threads=False).combine_chunks()
                yield from table.to_batches()


def table_of(files: Sequence[Address], columns: Sequence[str]) -> pa.Table:
    """These columns of all rows of some files, at least one."""
    tables = []
    for path in files:
        with opened(path) as file:
            tables.append(file.read(columns=columns, use_threads=False))
    return pa.concat_tables(tables)


def without(batch: pa.RecordBatch, docs: Ints) -> pa.RecordBatch:
    """A batch without the documents of these numbers."""
    gone = np.isin(batch.column("doc").to_numpy(), docs)
    return batch.filter(pa.array(~gone)) if gone.any() else batch


UNITS_A_SOURCE = 1 << 20
ROWS_A_UNIT = 1 << 32
_NO_DOCS = (0, -1)


def first_doc(unit: int) -> int:
    """The number of a unit's first document; the next unit's is 2^32 higher."""
    return unit * ROWS_A_UNIT


class Footer(NamedTuple):
    """What the end of a Parquet file tells: the rows of its groups, and the least and greatest `doc` if it says so."""

    groups: Sequence[int]
    docs: Sequence[int] | None


def footer(file: Address) -> Footer:
    """Read it: by a job, since a query may leave thousands of files."""
    with opened(file) as found:
        metadata = found.metadata
    rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    if not sum(rows) or "doc" not in metadata.schema.names:
        return Footer(rows, None if sum(rows) else _NO_DOCS)
    ranges = [_doc_range(metadata, group) for group in range(len(rows))]
    known = [docs for docs in ranges if docs is not None]
    whole = len(known) == len(ranges)
    return Footer(rows, (min(low for low, _ in known), max(high for _, high in known)) if whole else None)


def _doc_range(metadata: pq.FileMetaData, group: int) -> tuple[int, int] | None:
    """The least and greatest `doc` of a row group, if the file says so."""
    found = metadata.row_group(group).column(metadata.schema.names.index("doc")).statistics
    return (found.min, found.max) if found and found.has_min_max else None


@dataclass(frozen=True)
class Relation:
    """Parquet files whose rows, one file after the other, are what a query reads or gives, and what they stand on.

    `footers` are known of those that a query gave.
    """

    files: tuple[Address, ...]
    fingerprint: str
    rows: int = 0
    footers: tuple[Footer, ...] = ()

    def files_of(self, unit: int) -> list[Address]:
        """Those that may hold documents of a unit; one at least, for its columns."""
        low, high = first_doc(unit), first_doc(unit + 1)
        ranges = [found.docs for found in self.footers] or [None] * len(self.files)
        found = [file for file, docs in zip(self.files, ranges, strict=True)
                 if docs is None or (docs[0] < high and docs[1] >= low)]  # fmt: skip
        return found or list(self.files[:1])

    def rows_of(self, unit: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows whose `doc` lies in the unit: wide results are sorted by it, so little else is read."""
        return pa.concat_tables(_rows_within(file, first_doc(unit), first_doc(unit + 1), columns)
                                for file in self.files_of(unit))  # fmt: skip


def _rows_within(file: Address, low: int, high: int, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a file with low <= doc < high; row groups that have none of them are not read."""
    with opened(file) as found:
        wanted = columns or found.schema_arrow.names
        ranges = [_doc_range(found.metadata, group) for group in range(found.num_row_groups)]
        groups = [group for group, docs in enumerate(ranges) if docs is None or (docs[0] < high and docs[1] >= low)]
        table = found.read_row_groups(groups, columns=[*{"doc": 0, **dict.fromkeys(wanted)}], use_threads=False)
    inside = pc.and_(pc.greater_equal(table["doc"], low), pc.less(table["doc"], high))
    return table.filter(inside).select(wanted)


def docs_of_unit(relations: Sequence[Relation], unit: int) -> Ints:
    """The documents of a unit that wide results name, sorted."""
    found = [relation.rows_of(unit, ["doc"]).column("doc").to_numpy() for relation in relations]
    return np.unique(np.concatenate([*found, np.zeros(0, np.int64)]))


@dataclass(frozen=True)
class Drops:
    """The result of a wide rule: a table with `doc`, `kept` and perhaps `similarity`, sorted by `doc`."""

    rule: str
    reason: str
    table: Relation

    def of_unit(self, unit: int) -> UnitDrops:
        """Those of one unit, which fit in memory as the unit does."""
        table = self.table.rows_of(unit)
        numbers = [name for name in ("doc", "kept", "similarity") if name in table.column_names]
        columns = {name: table.column(name).to_numpy() for name in numbers}
        return UnitDrops(self.rule, self.reason, columns["doc"], columns["kept"], columns.get("similarity"))


def dropped_table(dropped: Sequence[Relation]) -> Mapping[str, Sequence[Relation]]:
    """The table of documents that are already gone, as queries know it, if there are any."""
    return {"dropped": dropped} if dropped else {}
