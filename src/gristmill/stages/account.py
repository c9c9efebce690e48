"""The account: the rows of every document that left, and of the document in whose favour a duplicate did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.curate.dedup.near import Near
from gristmill.curate.ledger import dropped_schema
from gristmill.places.door import place_at
from gristmill.stages.tables import batches_of, rows_of_unit
from gristmill.stages.work import Facts, Table, UnitJob

DROPPED = "dropped.parquet"
EVIDENCE = "duplicates.parquet"
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
class AccountJob(UnitJob):
    """Writes a table of the account into the store; its rows pass by one batch at a time."""

    name: ClassVar[str]
    root: Path
    evidence: Table | None

    @property
    def outputs(self) -> Sequence[Path]:
        return [self.root / self.name]


@dataclass(frozen=True, kw_only=True)
class EvidenceJob(AccountJob):
    """All duplicates: dropped id, kept id, similarity (null for equal texts), and the rule."""

    name: ClassVar[str] = EVIDENCE

    @property
    def depends(self) -> Any:
        return ["duplicates", self.evidence.fingerprint if self.evidence else None]

    def __call__(self) -> Facts:
        names = {"id": pa.string(), "kept_id": pa.string(), "similarity": pa.float64(), "rule": pa.string()}
        schema = pa.schema(list(names.items()))
        with place_at(self.outputs[0]).writing() as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for batch in (batch for file in _files(self.evidence) for batch in batches_of(file, list(names))):
                writer.write_batch(batch.select(list(names)).cast(schema))
        return {}


@dataclass(frozen=True, kw_only=True)
class DroppedJob(AccountJob):
    """All dropped documents in their order; `detail` of a duplicate names the one that stayed."""

    name: ClassVar[str] = DROPPED
    units: tuple[tuple[int, tuple[Path, ...]], ...]
    upstream: str
    texts: bool

    @property
    def depends(self) -> Any:
        return ["dropped", self.upstream, self.evidence.fingerprint if self.evidence else None, self.texts]

    def __call__(self) -> Facts:
        schema = dropped_schema()
        kept = [name for name in schema.names if name not in ("doc", "kept") and (self.texts or name != "text")]
        with (
            place_at(self.outputs[0]).writing() as file,
            pq.ParquetWriter(file, schema.empty_table().select(kept).schema, compression="zstd") as writer,
        ):
            for table in _tables(self.units, self.evidence):
                writer.write_table(table.select(kept))
        return {}


def _files(table: Table | None) -> Sequence[Path]:
    return table.files if table else ()


def _tables(units: Sequence[tuple[int, Sequence[Path]]], evidence: Table | None) -> Iterator[pa.Table]:
    """The dropped documents of each unit, by the pass that dropped them."""
    for number, files in units:
        ids = _KeptIds(evidence, number) if evidence else None
        for batch in (batch for file in files for batch in batches_of(file)):
            table = pa.Table.from_batches([batch])
            yield ids.name(table) if ids else table


class _KeptIds:
    """The ids of the documents in whose favour those of a unit were dropped."""

    def __init__(self, evidence: Table, unit: int) -> None:
        table = rows_of_unit(evidence, unit, ["doc", "kept_id"])
        self._docs, self._ids = table.column("doc").to_numpy(), table.column("kept_id")

    def name(self, table: pa.Table) -> pa.Table:
        """The table with those ids as details."""
        place = np.searchsorted(self._docs, table.column("doc").to_numpy())
        inside = pa.array(np.minimum(place, max(len(self._docs) - 1, 0)))
        if not len(self._docs):
            return table
        details = pc.if_else(pc.is_valid(table.column("kept")), self._ids.take(inside), table.column("detail"))
        return table.set_column(table.schema.get_field_index("detail"), "detail", details)
