"""A DataFrame over the documents of a store: stretches of shards, each read by one task into Arrow batches of bounded
bytes. A Python data source where Spark has them (4.0 and later), else `mapInArrow` over the numbers of the stretches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.core.arguments import PathLike
from gristmill.core.cached import cached_property
from gristmill.core.texts import runs
from gristmill.places.door import address_of, as_address, place_at
from gristmill.store.manifest import SPLITS
from gristmill.store.opening import folder_of, open_store
from gristmill.store.reader import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Tokens that one task reads, about; bytes of tokens and documents of a batch at most, but for one long document.
TASK_TOKENS, BATCH_BYTES, BATCH_DOCUMENTS = 1 << 24, 8 << 20, 8_192
# The columns of a document's table that are no carried field.
_NOTED = {"id", "source", "offset", "length", "path", "row", "content_hash", "edits"}
_COLUMNS = "id string, source string, split string, fields map<string,string>"


@dataclass(frozen=True)
class Stretch:
    """Documents [begin, end) of a shard."""

    path: str
    split: str | None
    shard: int
    begin: int
    end: int


@dataclass(frozen=True)
class Documents:
    """The documents of a store at `path`, with their tokens and their texts as asked for."""

    path: str
    tokens: bool
    text: bool

    @cached_property
    def _kind(self) -> str:
        """Token ids are int in Spark, which is signed: those of 64 bits, and of 32 where no vocabulary bounds them."""
        store = open_store(next(path for path, _ in _splits(self.path)))
        small = store.dtype.itemsize < 4 or (store.vocab_size or 1 << 32) <= 1 << 31
        return "int" if small else "bigint"

    @property
    def schema(self) -> str:
        """The columns, as Spark spells them."""
        tokens, text = f", tokens array<{self._kind}>" if self.tokens else "", ", text string" if self.text else ""
        return f"{_COLUMNS}{tokens}{text}"

    def stretches(self) -> list[Stretch]:
        """What tasks read: about 16 million tokens each, of one shard."""
        found = []
        for path, split in _splits(self.path):
            store = open_store(path)
            counted = zip(store.shard_documents().tolist(), store.files.tokens.tolist(), strict=True)
            for shard, (documents, tokens) in enumerate(counted):
                step = max(math.ceil(documents * TASK_TOKENS / max(tokens, 1)), 1)
                found += [Stretch(path, split, shard, begin, min(begin + step, documents))
                          for begin in range(0, documents, step)]  # fmt: skip
        return found

    def read(self, stretch: Stretch) -> Iterator[pa.RecordBatch]:
        """The documents of a stretch, in order."""
        store = open_store(stretch.path)
        lengths = store.document_lengths(stretch.shard)
        starts, at = np.append(0, np.cumsum(lengths)), stretch.begin
        for table in store.names.tables(stretch.shard, stretch.begin, stretch.end):
            here = starts[at : at + len(table) + 1]
            for begin, end in runs(here, BATCH_BYTES // store.dtype.itemsize, BATCH_DOCUMENTS):
                yield self._batch(store, stretch, table.slice(begin, end - begin), here[begin : end + 1])
            at += len(table)
        store.close()

    def _batch(self, store: Store, stretch: Stretch, rows: pa.Table, starts: np.ndarray[Any, Any]) -> pa.RecordBatch:
        import pyarrow as pa

        columns = {"id": _text(rows, "id"), "source": _text(rows, "source"),
                   "split": pa.array([stretch.split] * len(rows), pa.string()), "fields": _fields(rows)}  # fmt: skip
        if self.tokens or self.text:
            first = store.tokens_in(stretch.shard)
            ids = store.tokens(first + int(starts[0]), first + int(starts[-1]))
            edges = starts - starts[0]
        if self.tokens:
            values = pa.array(ids.astype(np.int32 if self._kind == "int" else np.int64))
            columns["tokens"] = pa.ListArray.from_arrays(pa.array(edges.astype(np.int32)), values)
        if self.text:
            texts = [store.decode(ids[begin:end]) for begin, end in pairwise(edges.tolist())]
            columns["text"] = pa.array(texts, pa.string())
        return pa.record_batch(columns)


def _splits(path: str) -> list[tuple[str, str | None]]:
    """The splits of a store, or the one that a path names; foreign files have none."""
    address = address_of(path)
    folder = folder_of(address)
    if not folder.mark:
        return [(path, None)]
    splits = [folder.split] if address != folder.root else list(SPLITS)
    found: list[tuple[str, str | None]] = [(str(folder.root / split), split) for split in splits]
    return [each for each in found if open_store(each[0]).num_shards] or found[:1]


def _text(rows: pa.Table, name: str) -> pa.Array:
    import pyarrow as pa

    return rows.column(name).cast(pa.string()).combine_chunks()


def _fields(rows: pa.Table) -> pa.Array:
    """The carried fields of each document that it has."""
    import pyarrow as pa

    names = [name for name in rows.column_names if name not in _NOTED]
    values = [rows.column(name).to_pylist() for name in names]
    found = [[(name, value) for name, value in zip(names, row, strict=True) if value is not None]
             for row in (zip(*values, strict=True) if names else [()] * len(rows))]  # fmt: skip
    return pa.array(found, pa.map_(pa.string(), pa.string()))


def documents_frame(spark: SparkSession, store: PathLike, tokens: bool, text: bool) -> DataFrame:
    """A lazy DataFrame; a path where no store is, is told at once."""
    path = place_at(as_address("store", store, "the path of a store")).real()
    documents = Documents(path, tokens, text)
    schema = documents.schema
    if not hasattr(spark, "dataSource"):  # before Spark 4.0
        return mapped_frame(spark, documents, schema)
    from gristmill.adapters.spark_source import DocumentsSource

    spark.dataSource.register(DocumentsSource)
    options = {"tokens": str(tokens).lower(), "text": str(text).lower()}
    return spark.read.format(DocumentsSource.name()).options(**options).load(path)


def mapped_frame(spark: SparkSession, documents: Documents, schema: str) -> DataFrame:
    """The same by `mapInArrow`, for a Spark without Python data sources."""
    stretches = documents.stretches()
    return spark.range(0, len(stretches), 1, max(len(stretches), 1)).mapInArrow(_reading(documents, stretches), schema)


def _reading(
    documents: Documents, stretches: Sequence[Stretch]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from documents.read(stretches[number])

    return run
