"""Parquet: a document a row. Only the columns that are asked for are read; a large file is cut at its row groups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gristmill.sources.base import Format, InputFile, Mishaps, Part, parts_from
from gristmill.sources.batches import BATCH_BYTES
from gristmill.sources.columns import damage_named, run_edges, table_documents, wanted
from gristmill.sources.parquet_pages import rows_at_once
from gristmill.sources.streams import packing_of, seekable

if TYPE_CHECKING:
    import pyarrow as pa

# Rows a look: what is read at once is looked at together, up to about 8 MiB.
_ROWS = 1_024
_BUFFER_BYTES = 1 << 20


def cut_row_groups(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Runs of row groups of about `unit_bytes` on disk; a packed file stays whole."""
    if packing_of(file.path):
        return [Part(file, size=size)]
    with _opened(file) as (parquet, _):
        sizes = [_group_bytes(parquet, group) for group in range(parquet.num_row_groups)]
    return parts_from(file, run_edges(sizes, unit_bytes), size)


def _group_bytes(parquet: Any, group: int) -> int:
    columns = parquet.metadata.row_group(group)
    return sum(columns.column(i).total_compressed_size for i in range(columns.num_columns))


def read_parquet(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The rows of a part's row groups."""
    with _opened(part.file) as (parquet, source):
        columns = wanted(parquet.schema_arrow, format, part)
        names = [".".join(path) for path in columns.values()]
        row = sum(parquet.metadata.row_group(group).num_rows for group in range(part.start))
        for group in range(parquet.num_row_groups)[part.start : part.stop]:
            rows = rows_at_once(source, parquet.metadata.row_group(group), names, part.file, _ROWS)
            for table in _gathered(parquet.iter_batches(rows, [group], names, use_threads=False)):
                yield from table_documents(part, format, table, columns, row, mishaps)
                row += len(table)


def _gathered(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, of about 8 MiB: where a group may hold long texts, few rows are read at once."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    count = size = 0
    for table in tables:
        held.append(table)
        count, size = count + len(table), size + table.nbytes
        if size >= BATCH_BYTES or count >= _ROWS:
            yield held[0] if len(held) == 1 else pa.concat_batches(held)
            held, count, size = [], 0, 0
    if held:
        yield held[0] if len(held) == 1 else pa.concat_batches(held)


@contextlib.contextmanager
def _opened(file: InputFile) -> Iterator[tuple[Any, Any]]:
    """The file for Arrow, and its bytes."""
    import pyarrow.parquet as pq

    with seekable(file) as source, damage_named(file, "Parquet"):
        yield pq.ParquetFile(source, buffer_size=_BUFFER_BYTES), source
