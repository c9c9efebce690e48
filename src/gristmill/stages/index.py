"""The index that a run saves for later ones, by a job for each part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints
from gristmill.core.options import content
from gristmill.curate.dedup.drops import alive
from gristmill.curate.dedup.index import IDS, INDEX, INDEX_UNIT, KEYS, SETS, describe, open_index, part_path
from gristmill.curate.dedup.near import Near
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.stages.near import NearSearch, write_sets
from gristmill.stages.relation import Relation, docs_of_unit, dropped_table, table_of
from gristmill.stages.work import Facts, Job, Query, UnitJob

# In any keep order the documents of an index come first.
_FIRST = np.iinfo(np.int64).min


@dataclass(frozen=True, kw_only=True)
class _PartJob(UnitJob):
    """Part NUMBER of the index at `index`."""

    index: Address
    near: Near
    upstream: str

    @property
    def outputs(self) -> Sequence[Address]:
        return [part_path(self.index, self.number, kind) for kind in (KEYS, IDS, SETS)[: 3 if self.near.verify else 2]]


@dataclass(frozen=True, kw_only=True)
class TakeOverJob(_PartJob):
    """Takes a part of the index that the run compared with into the new one: by a link, or a copy where none can be."""

    @property
    def depends(self) -> object:
        return ["taken over", self.upstream, str(self.index), self.near.verify]

    def __call__(self) -> Facts:
        for target in self.outputs:
            place_at(target).copy(place_at(address_of(self.near.index or "") / target.name))
        return {}


@dataclass(frozen=True, kw_only=True)
class SaveJob(_PartJob):
    """Makes a part of what is left of a unit."""

    unit: int
    texts: Address
    signatures: Address
    kept: Relation

    @property
    def depends(self) -> object:
        return ["index", self.upstream, self.kept.fingerprint, str(self.index), self.number, content(self.near)]

    def __call__(self) -> Facts:
        kept = docs_of_unit([self.kept], self.unit)
        numbers = kept - (self.unit << 32) + ((INDEX_UNIT + self.number) << 32)
        keys, ids, *sets = self.outputs
        first = np.full(len(kept), _FIRST, np.int64)
        _write(keys, _rows_of(self.signatures, self.near.key_columns, kept), doc=numbers, keep_key=first)
        _write(ids, _rows_of(self.texts, ["id"], kept), doc=numbers)
        for path in sets:
            write_sets(self.texts, kept, numbers, self.near, path)
        return {}


def _rows_of(path: Address, columns: Sequence[str], docs: Ints) -> pa.Table:
    """These columns of the rows of a Parquet file (in the order of doc) whose doc is among `docs`."""
    table = table_of([path], ["doc", *columns])
    wanted = np.isin(np.asarray(table["doc"]), docs, assume_unique=True)
    return table.filter(pa.array(wanted)).select(columns)


def _write(path: Address, rows: pa.Table, **before: Ints) -> None:
    columns = {name: pa.array(column) for name, column in before.items()}
    with place_at(path).writing() as file:
        pq.write_table(
            pa.table({**columns, **{name: rows[name] for name in rows.column_names}}), file, compression="zstd"
        )


def save_index(search: NearSearch, dropped: Sequence[Relation], folder: Address) -> None:
    """Keep the signatures and shingles of what is left, for later runs to compare with.

    The folder is one that `IndexFolder` holds; near duplicates that this run dropped belong into `dropped` too.
    """
    work, near = search.work, search.near
    sql = f"SELECT doc FROM {alive('signatures', 'doc', bool(dropped))} AS kept ORDER BY doc"
    kept = work.ask(Query("kept", sql, {"signatures": search.signatures[-1:], **dropped_table(dropped)}))
    before, done_in = len(open_index(near).keys), work.folder / "index"
    jobs: list[Job] = [
        TakeOverJob(number=part, upstream=search.signatures[0].fingerprint, index=folder, near=near, folder=done_in)
        for part in range(before)
    ]
    jobs += [SaveJob(number=number, unit=job.number, texts=job.texts, signatures=job.outputs[0],
                     upstream=done.fingerprint, kept=kept, index=folder, near=near, folder=done_in)
             for number, (job, done) in enumerate(zip(search.jobs, search.done, strict=True), before)]  # fmt: skip
    place_at(folder).make_folder()
    work.complete(jobs, "saving the index")
    place_at(folder / INDEX).write(json.dumps(describe(near, len(jobs)), indent=1) + "\n")
