"""Parquet: a document a row. Only the columns that are asked for are read; a large file is cut at its row groups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.core.locks import Lock
from gristmill.places.base import Place
from gristmill.sources.base import Format, InputFile, Mishaps, Part, parts_from
from gristmill.sources.batches import BATCH_BYTES, joined
from gristmill.sources.columns import damage_named, run_edges, table_documents, wanted
from gristmill.sources.parquet_pages import rows_at_once
from gristmill.sources.streams import packing_of, seekable

_MAGIC = b"PAR1"
# Rows a look: what is read at once is looked at together, up to about 8 MiB.
_ROWS = 1_024
_BUFFER_BYTES = 1 << 20
# How many footers a process remembers, the last ones, and the largest of them: 32 MiB of files in all.
_FOOTERS, _FOOTER_BYTES = 128, 256 << 10
_footers: dict[Place, pq.FileMetaData] = {}
_memory = Lock()


def cut_row_groups(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Runs of row groups of about `unit_bytes` on disk; a packed file stays whole."""
    if packing_of(file.path):
        return [Part(file, size=size)]
    with _opened(file) as (parquet, _):
        every = list(range(len(parquet.schema)))
        groups = [_chunks(parquet, group, every) for group in range(parquet.num_row_groups)]
        sizes = [sum(chunk.total_compressed_size for chunk in chunks) for chunks in groups]
    return parts_from(file, run_edges(sizes, unit_bytes), size)


def _chunks(parquet: pq.ParquetFile, group: int, columns: list[int]) -> list[pq.ColumnChunkMetaData]:
    """What the footer tells of columns in a row group.

    Reading no rows of them first makes damage an error: to ask for a damaged one at once would end the process.
    """
    for _ in parquet.reader.iter_batches(0, [group], column_indices=columns, use_threads=False):
        break
    found = parquet.metadata.row_group(group)
    return [found.column(i) for i in columns]


def read_parquet(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The rows of a part's row groups."""
    with _opened(part.file) as (parquet, source):
        columns = wanted(parquet.schema_arrow, format, part)
        names = [".".join(path) for path in columns.values()]
        row = sum(_rows(parquet, group) for group in range(part.start))
        for group in range(parquet.num_row_groups)[part.start : part.stop]:
            end = row + _rows(parquet, group)
            for table in _read_group(parquet, source, group, names, part.file):
                yield from table_documents(part, format, table, columns, row, mishaps)
                row += len(table)
            if row != end:
                raise ValueError(f"row group {group:,} has {row - end:+,} rows")


def _rows(parquet: pq.ParquetFile, group: int) -> int:
    return int(parquet.metadata.row_group(group).num_rows)


def _read_group(
    parquet: pq.ParquetFile, source: pa.NativeFile, group: int, names: list[str], file: InputFile
) -> Iterator[pa.RecordBatch]:
    """The rows of a row group, so many at once as can be held."""
    paths = [parquet.schema.column(i).path for i in range(len(parquet.schema))]
    columns = [i for i, path in enumerate(paths) if any(f"{path}.".startswith(f"{name}.") for name in names)]
    rows = rows_at_once(source, _chunks(parquet, group, columns), _rows(parquet, group), file, _ROWS)
    return _gathered(parquet.iter_batches(rows, [group], names, use_threads=False))


def _gathered(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, of about 8 MiB: where a group may hold long texts, few rows are read at once."""
    held: list[pa.RecordBatch] = []
    count = size = 0
    for table in tables:
        held.append(table)
        count, size = count + len(table), size + table.nbytes
        if size >= BATCH_BYTES or count >= _ROWS:
            yield joined(held)
            held, count, size = [], 0, 0
    if held:
        yield joined(held)


@contextlib.contextmanager
def _opened(file: InputFile) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile]]:
    """The file for Arrow, and its bytes."""
    with seekable(file, _MAGIC) as source, damage_named(file, "Parquet"):
        parquet = pq.ParquetFile(source, metadata=_footers.get(file.place), buffer_size=_BUFFER_BYTES)
        _remember(file, parquet.metadata)
        yield parquet, source


def _remember(file: InputFile, footer: pq.FileMetaData) -> None:
    """Keep the footer of one version of a file elsewhere, where each part would ask for it again."""
    if file.size is None or file.place.maps or packing_of(file.path) or footer.serialized_size > _FOOTER_BYTES:
        return
    with _memory:
        _footers[file.place] = footer
        while len(_footers) > _FOOTERS:
            del _footers[next(iter(_footers))]
