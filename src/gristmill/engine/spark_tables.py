"""Queries of Spark over files in object storage, for which it needs no connector: executors read and write them.

Tables are what executors read through our own door, some files to a task. The rows of a query are written by the tasks
that hold them, each to a file of its attempt's own name; only the names that Spark gives back, one a partition, are the
query's rows, so that second attempts disturb nobody. What they leave is removed.
"""

from __future__ import annotations

import os
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.core.errors import EngineError
from gristmill.core.extras import extra
from gristmill.core.texts import runs
from gristmill.engine.base import part_of
from gristmill.engine.tables import groups_of, schema_of
from gristmill.engine.tasks import Task, itself, taken
from gristmill.places.address import Address
from gristmill.places.door import place_at, remove_all, sizes

with extra("spark", "gristmill.engine.spark_tables"):
    from pyspark import TaskContext, cloudpickle
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Bytes of files that a task reads, as Spark's own reader has it.
_PART_BYTES = 128 << 20
# A row group that is written, whichever comes first: as many rows as DuckDB's have.
_GROUP_ROWS, _GROUP_BYTES = 122_880, 64 << 20
# What Spark takes for small enough to be sent to every executor: by a guess, and once it has been measured.
_GUESSED, _MEASURED = "spark.sql.autoBroadcastJoinThreshold", "spark.sql.adaptive.autoBroadcastJoinThreshold"
Batches = Iterator[pa.RecordBatch]


def frame_of(session: SparkSession, files: Sequence[Address], sql: str) -> DataFrame:
    """The rows of files, with the columns that a statement names."""
    columns = [(field.name, _plain(field.type)) for field in schema_of(files[0], sql)]
    schema = from_arrow_schema(pa.schema(columns))
    ends = np.append(0, np.cumsum(list(sizes(os.fspath(file) for file in files))))
    parts = [tuple(files[first:stop]) for first, stop in runs(ends, _PART_BYTES)]
    numbers = session.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(_sent(_Reading(parts, sql, pa.schema(columns))), schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type as Spark gives it to Python, and takes it back."""
    return pa.string() if pa.types.is_large_string(kind) else kind


@dataclass(frozen=True)
class _Reading:
    """Numbers of parts in, the rows of their files out."""

    parts: Sequence[Sequence[Address]]
    sql: str
    schema: pa.Schema

    def __call__(self, numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file in self.parts[number]:
                    yield from self._rows(file)

    def _rows(self, file: Address) -> Batches:
        try:
            for table in groups_of(file, self.sql):
                yield from table.select(self.schema.names).cast(self.schema).to_batches()
        except OSError as error:
            why = error.strerror or error
            raise EngineError(f"{file} cannot be read ({why}): look what ails it, and run again.") from error


def written(rows: DataFrame, out: Address) -> list[Address]:
    """The files of a query's rows, in order: one for each partition that has any."""
    pickled = _pickled(_Writing(out))

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        from gristmill.engine.tasks import answers

        for answer in answers(pickled, batches):
            yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], names=["answer"])

    given = rows.mapInArrow(run, "answer binary").collect()
    found = sorted(cast(tuple[int, str], taken(bytes(row["answer"]))) for row in given)
    kept = {name for _, name in found}
    left = [name for name in place_at(out.parent).names() if name.startswith(f"{out.stem}-") and name not in kept]
    remove_all(os.fspath(out.with_name(name)) for name in left)
    return [out.with_name(name) for _, name in found] or [_empty(rows, out)]


def _empty(rows: DataFrame, out: Address) -> Address:
    """A file without rows, for its columns."""
    with place_at(out).writing() as file:
        pq.write_table(to_arrow_schema(rows.schema).empty_table(), file)
    return out


@dataclass(frozen=True)
class _Writing:
    """The rows of a partition in; its number, and the name of the file that this attempt has written, out."""

    out: Address

    def __call__(self, batches: Batches) -> Iterator[tuple[int, str]]:
        context, groups = TaskContext.get(), _groups(batches)
        assert context is not None
        path = part_of(self.out, context.partitionId(), secrets.token_hex(8))
        if (first := next(groups, None)) is None:
            return
        with (
            place_at(path).writing() as file,
            pq.ParquetWriter(file, first.schema, compression="zstd") as writer,
        ):
            writer.write_table(first, row_group_size=len(first))
            for group in groups:
                writer.write_table(group, row_group_size=len(group))
        yield context.partitionId(), path.name


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows as they are to lie in row groups."""
    held, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in filter(len, batches):
        held, rows, size = [*held, batch], rows + len(batch), size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _pickled(function: object) -> bytes:
    return pickle.dumps(Task.of(itself, function, cloudpickle.dumps))


def _sent(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A function of ours, on an executor of the same version that works where the driver does."""
    pickled = _pickled(function)

    def run(batches: Batches) -> Batches:
        from gristmill.engine.tasks import received

        yield from received(pickled)(batches)

    return run


@contextmanager
def nothing_guessed(session: SparkSession) -> Iterator[None]:
    """Spark cannot know how much Python will give, and takes it for little: it may send to all executors, through the
    driver, only what it has measured.
    """
    kept = {name: session.conf.get(name, None) for name in (_GUESSED, _MEASURED)}
    try:
        session.conf.set(_MEASURED, str(kept[_MEASURED] or session.conf.get(_GUESSED)))
        session.conf.set(_GUESSED, "-1")
        yield
    finally:
        for name, value in kept.items():
            session.conf.unset(name) if value is None else session.conf.set(name, value)
