"""The account: the rows of every document that left, and of the document in whose favour a duplicate did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.curate.dedup.near import Near
from gristmill.curate.ledger import dropped_schema
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.stages.relation import Relation, batches_of
from gristmill.stages.work import Facts

DROPPED = "dropped.parquet"
EVIDENCE = "duplicates.parquet"
# The names of their markers.
NUMBERS = {EVIDENCE: 0, DROPPED: 1}
# What the tables of wide rules tell beside the document that stays.
_OWN_COLUMNS = {Near.name: "kept_id, similarity"}
_NO_COLUMNS = "CAST(NULL AS STRING) AS kept_id, CAST(NULL AS DOUBLE) AS similarity"


def named_duplicates(rules: Sequence[str]) -> str:
    """SQL for each document that a wide rule dropped: the one that stayed, here or in an index, and how near it is.

    `rules` are the tables of what they dropped; `documents` are all that were read.
    """
    parts = [f"SELECT doc, kept, '{rule}' AS rule, {_OWN_COLUMNS.get(rule, _NO_COLUMNS)} FROM {rule}" for rule in rules]
    return f"""
        SELECT drops.doc, gone.id, COALESCE(drops.kept_id, kept.id) AS kept_id, drops.similarity, drops.rule
        FROM ({" UNION ALL ".join(parts)}) AS drops JOIN documents AS gone ON drops.doc = gone.doc
        LEFT JOIN documents AS kept ON drops.kept = kept.doc ORDER BY drops.doc
    """


@dataclass(frozen=True, kw_only=True)
class AccountJob:
    """Writes a table of the account into the store; its rows pass by one batch at a time."""

    name: ClassVar[str]
    root: Address
    folder: Address
    evidence: Relation | None
    size: int = 0

    @property
    def marker(self) -> Address:
        return self.folder / f"{NUMBERS[self.name]:08x}.json"

    @property
    def outputs(self) -> Sequence[Address]:
        return [self.root / self.name]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        raise NotImplementedError

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows, perhaps with other columns."""
        raise NotImplementedError

    def __call__(self) -> Facts:
        schema, place = self.schema, place_at(self.outputs[0])
        with place.writing() as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for batch in self.batches():
                writer.write_batch(batch.select(schema.names).cast(schema))
        return {"sums": {self.name: (place.size(), place.checksum())}}


@dataclass(frozen=True, kw_only=True)
class EvidenceJob(AccountJob):
    """All duplicates: dropped id, kept id, similarity (null for equal texts), and the rule."""

    name: ClassVar[str] = EVIDENCE

    @property
    def depends(self) -> object:
        return ["duplicates-2", self.evidence.fingerprint if self.evidence else None]

    @property
    def schema(self) -> pa.Schema:
        names = {"id": pa.string(), "kept_id": pa.string(), "similarity": pa.float64(), "rule": pa.string()}
        return pa.schema(list(names.items()))

    def batches(self) -> Iterator[pa.RecordBatch]:
        return batches_of(self.evidence.files if self.evidence else (), self.schema.names)


@dataclass(frozen=True, kw_only=True)
class DroppedJob(AccountJob):
    """All dropped documents in their order; `detail` of a duplicate names the one that stayed."""

    name: ClassVar[str] = DROPPED
    units: tuple[tuple[int, tuple[Address, ...]], ...]
    upstream: str
    texts: bool

    @property
    def depends(self) -> object:
        return ["dropped-2", self.upstream, self.evidence.fingerprint if self.evidence else None, self.texts]

    @property
    def schema(self) -> pa.Schema:
        own = {"doc", "kept", *(() if self.texts else ("text",))}
        return pa.schema([field for field in dropped_schema() if field.name not in own])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """By unit, and by the pass that dropped them."""
        for number, files in self.units:
            kept = self.evidence.rows_of(number, ["doc", "kept_id"]).combine_chunks() if self.evidence else None
            for batch in batches_of(files):
                yield _named(batch, kept) if kept else batch


def _named(batch: pa.RecordBatch, kept: pa.Table) -> pa.RecordBatch:
    """The batch with the ids of the documents in whose favour its own were dropped as details."""
    docs = kept.column("doc").to_numpy()
    inside = pa.array(np.minimum(np.searchsorted(docs, batch.column("doc").to_numpy()), len(docs) - 1))
    ids = kept.column("kept_id").combine_chunks().take(inside)
    details = pc.if_else(pc.is_valid(batch.column("kept")), ids, batch.column("detail"))
    return batch.set_column(batch.schema.get_field_index("detail"), "detail", details)
