"""Tables of a store that may have 10^9 rows, asked by SQL: rows stream past, and what does not fit goes to disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.core.errors import StoreError
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.store.format import DOCS_SUFFIX
from gristmill.store.reader import Store

if TYPE_CHECKING:
    import duckdb

MEMORY = "400MB"
_BATCH_ROWS = 1 << 16


@contextmanager
def connection(memory: str = MEMORY) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database of its own in memory, its overflow in a folder that goes with it."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="gristmill-") as scratch, duckdb.connect() as opened:
        opened.execute(f"SET memory_limit = '{memory}'")
        opened.execute("SET temp_directory = ?", [scratch])
        opened.execute("SET preserve_insertion_order = false")
        yield opened


def document_files(stores: Sequence[Store]) -> list[str]:
    """The documents' tables of stores, in their order."""
    return [store.files.sibling(shard, DOCS_SUFFIX) for store in stores for shard in range(store.num_shards)]


def columns_of(files: Sequence[str]) -> list[str]:
    """Columns that all files have; sources carry different fields, so stores that were joined may differ."""
    found: dict[str, None] | None = None
    for path in files:
        with opened(path) as file:
            names = dict.fromkeys(file.schema_arrow.names)
        found = names if found is None else {name: None for name in found if name in names}
    return list(found or ())


def rows(files: Sequence[str], schema: pa.Schema) -> pa.RecordBatchReader:
    """Some columns of all files, a batch at a time."""
    return pa.RecordBatchReader.from_batches(schema, _batches(files, schema))


def _batches(files: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in files:
        with opened(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=schema.names, use_threads=False):
                yield batch.select(schema.names).cast(schema)


@contextmanager
def opened(path: Address | str) -> Iterator[pq.ParquetFile]:
    """A Parquet file anywhere; whatever a damaged one leads to is one error."""
    try:
        with pq.ParquetFile(place_at(path).arrow()) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise StoreError(f"{path} cannot be read ({error}): restore it, or make the store again.") from error
