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
from gristmill.sources.held_ranges import HeldRanges
from gristmill.sources.parquet_pages import rows_at_once, span_of
from gristmill.sources.streams import packing_of, seekable

_MAGIC = b"PAR1"
# Rows a look: what is read at once is looked at together, up to about 8 MiB.
_ROWS = 1_024
_BUFFER_BYTES = 1 << 20
# What is held of a row group on another machine; of a larger one a stretch of each column is.
_HELD_BYTES = 16 << 20
# What a process remembers of footers, the last ones used, as they lie in their files: in memory it is some 75 MB.
_FOOTER_BYTES = 32 << 20
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

    To begin to read them, of which no byte is fetched, makes damage an error: to ask for a damaged one at once would
    end the process.
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
    chunks = _chunks(parquet, group, columns)
    if (held := _held(file, chunks, source)) is not None:
        source, parquet = held, _parquet(held, parquet.metadata)
    rows = rows_at_once(source, chunks, _rows(parquet, group), file, _ROWS)
    return _gathered(parquet.iter_batches(rows, [group], names, use_threads=False))


def _held(file: InputFile, chunks: list[pq.ColumnChunkMetaData], source: pa.NativeFile) -> pa.NativeFile | None:
    """These columns of a row group on another machine, fetched at once, unless they are too large to be held."""
    if file.place.maps or packing_of(file.path):
        return None
    size, spans = source.size(), [span_of(chunk) for chunk in chunks]
    if any(not 0 <= start <= end <= size for start, end in spans):
        raise ValueError("a column lies outside of the file")
    if sum(end - start for start, end in spans) > _HELD_BYTES:
        return None
    return pa.PythonFile(HeldRanges(file.place, size, [(start, end - start) for start, end in spans]), "r")


def _parquet(source: pa.NativeFile, footer: pq.FileMetaData | None) -> pq.ParquetFile:
    """Columns are read by stretches: else Arrow would fetch a whole row group to begin with it."""
    return pq.ParquetFile(source, metadata=footer, buffer_size=_BUFFER_BYTES, pre_buffer=False)


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
        parquet = _parquet(source, _remembered(file))
        _remember(file, parquet.metadata)
        yield parquet, source


def _remembered(file: InputFile) -> pq.FileMetaData | None:
    with _memory:
        footer = _footers.pop(file.place, None)
        if footer is not None:
            _footers[file.place] = footer  # the last to go from now on
    return footer


def _remember(file: InputFile, footer: pq.FileMetaData) -> None:
    """Keep the footer of one version of a file elsewhere, where each part would ask for it again."""
    if file.size is None or file.place.maps or packing_of(file.path):
        return
    with _memory:
        if file.place in _footers:
            return
        _footers[file.place] = footer
        while sum(held.serialized_size for held in _footers.values()) > _FOOTER_BYTES:
            del _footers[next(iter(_footers))]
