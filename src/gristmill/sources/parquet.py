"""Parquet: a document a row. Only the columns that are asked for are read; a large file is cut at its row groups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gristmill.sources.base import Format, InputFile, Mishaps, Part, parts_from
from gristmill.sources.columns import damage_named, run_edges, table_documents, wanted
from gristmill.sources.streams import packing_of, seekable

if TYPE_CHECKING:
    import pyarrow as pa

# Rows a read: long texts make a batch larger than the 8 MiB that are handed on, and slices of it are cut from it.
_ROWS = 1_024
_BUFFER_BYTES = 1 << 20


def cut_row_groups(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Runs of row groups of about `unit_bytes` on disk; a packed file stays whole."""
    if packing_of(file.path):
        return [Part(file, size=size)]
    with _opened(file) as parquet:
        sizes = [_group_bytes(parquet, group) for group in range(parquet.num_row_groups)]
    return parts_from(file, run_edges(sizes, unit_bytes), size)


def _group_bytes(parquet: Any, group: int) -> int:
    columns = parquet.metadata.row_group(group)
    return sum(columns.column(i).total_compressed_size for i in range(columns.num_columns))


def read_parquet(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The rows of a part's row groups."""
    with _opened(part.file) as parquet:
        columns = wanted(parquet.schema_arrow, format, part)
        groups = range(parquet.num_row_groups)[part.start : part.stop]
        row = sum(parquet.metadata.row_group(group).num_rows for group in range(part.start))
        for table in parquet.iter_batches(_ROWS, list(groups), columns, use_threads=False):
            yield table_documents(part, format, table, row, mishaps)
            row += len(table)


@contextlib.contextmanager
def _opened(file: InputFile) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with seekable(file) as source, damage_named(file, "Parquet"):
        yield pq.ParquetFile(source, buffer_size=_BUFFER_BYTES)
