"""Parquet files of documents: written batch by batch, read batch by batch, in the order of `doc`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.curate.documents import Ints
from gristmill.places.door import place_at
from gristmill.stages.work import ROWS_A_UNIT, first_doc

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def table_writer(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """A Parquet file that appears whole: a row group each batch; lz4, since texts are read back once or twice."""
    import pyarrow.parquet as pq

    codes = [name for name in ("source", "path", "rule", "reason") if name in schema.names]
    with (
        place_at(path).writing() as file,
        pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=codes, write_statistics=["doc"]) as writer,
    ):
        yield writer


def batches_of(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The row groups of a file, each as one record batch."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns, use_threads=False).combine_chunks()
            yield from table.to_batches()


def rows_of_unit(paths: Sequence[Path], unit: int, columns: Sequence[str] | None) -> list[pa.Table]:
    """The rows of each file whose `doc` lies in the unit: wide results are sorted by it, so little else is read."""
    import pyarrow.parquet as pq

    low, high = first_doc(unit), first_doc(unit) + ROWS_A_UNIT
    inside = [("doc", ">=", low), ("doc", "<", high)]
    return [pq.read_table(path, columns=columns, filters=inside, use_threads=False) for path in paths]


def docs_of_unit(paths: Sequence[Path], unit: int) -> Ints:
    """The documents of a unit that wide results name, sorted."""
    found = [table.column("doc").to_numpy() for table in rows_of_unit(paths, unit, ["doc"])]
    return np.unique(np.concatenate([*found, np.zeros(0, np.int64)]))
