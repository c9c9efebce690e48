"""Parquet files of documents: written batch by batch, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints
from gristmill.curate.ledger import dropped_schema
from gristmill.places.door import place_at


def document_schema(fields: Sequence[str]) -> pa.Schema:
    """Documents between stages. `hash_*` are the halves of the text's digest, `edits` a bit for each step."""
    numbers = ("row", "id_hash", "bytes", "content_hash", "hash_hi", "hash_lo", "keep_key")
    names = [("doc", pa.int64()), *((name, pa.string()) for name in ("id", "source", "path")),
             *((name, pa.int64()) for name in numbers), ("edits", pa.int64()), ("text", pa.large_string())]  # fmt: skip
    return pa.schema([*names, *((name, pa.string()) for name in fields)])


@contextmanager
def pass_writers(outputs: Sequence[Path], schema: pa.Schema) -> Iterator[tuple[pq.ParquetWriter, pq.ParquetWriter]]:
    """The first two files of a pass over a unit: documents that stay, and the account of those that left."""
    with table_writer(outputs[0], schema) as kept, table_writer(outputs[1], dropped_schema()) as dropped:
        yield kept, dropped


@contextmanager
def table_writer(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
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


def batches_of(paths: Path | Sequence[Path], columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The row groups of a file, or of one after the other, each as one record batch."""
    for path in [paths] if isinstance(paths, Path) else paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=columns, use_threads=False).combine_chunks()
                yield from table.to_batches()


def without(batch: pa.RecordBatch, docs: Ints) -> pa.RecordBatch:
    """A batch without the documents of these numbers."""
    gone = np.isin(batch.column("doc").to_numpy(), docs)
    return batch.filter(pa.array(~gone)) if gone.any() else batch
