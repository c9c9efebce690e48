"""The search for near duplicates, from texts to evidence: jobs that sign and compare; queries in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints
from gristmill.core.cached import cached_property
from gristmill.core.options import content
from gristmill.curate.dedup import candidates
from gristmill.curate.dedup.index import INDEX_UNIT, SETS, index_fingerprint, open_index, part_path
from gristmill.curate.dedup.near import Near, sign, signature_schema
from gristmill.curate.dedup.resolve import evidence
from gristmill.curate.dedup.sets import FetchedSets, Sets, open_sets, set_rows, sets_schema, verified
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.stages.relation import (
    Relation,
    batches_of,
    docs_of_unit,
    dropped_table,
    first_doc,
    footer,
    opened,
    table_writer,
    without,
)
from gristmill.stages.resolve import Resolution
from gristmill.stages.work import Done, Facts, Query, TextsJob, UnitJob, Workshop, finished, forget, relation_of

# Pairs that a job compares at most, or one row group if that has more: row groups of DuckDB's files have 122,880 rows.
_PAIRS_A_PART = 1 << 19


@dataclass(frozen=True, kw_only=True)
class SignJob(TextsJob):
    """Signs the documents of a unit that no wide rule has dropped so far."""

    dropped: tuple[Relation, ...]
    near: Near
    priorities: dict[str, int]

    @property
    def depends(self) -> object:
        dropped = [table.fingerprint for table in self.dropped]
        return ["sign", self.upstream, dropped, {**content(self.near), "index": None}, self.priorities]

    def __call__(self) -> Facts:
        gone, rows, last = docs_of_unit(self.dropped, self.number), 0, -1
        with table_writer(self.outputs[0], signature_schema(self.near)) as writer:
            for batch in batches_of(self.texts, ["doc", "id", "source", "text"]):
                docs = batch.column("doc").to_numpy()
                signed = sign(without(batch, gone), self.near, self.priorities)
                writer.write_batch(signed)
                rows, last = rows + len(signed), int(docs[-1]) - first_doc(self.number) if len(docs) else last
        return {"rows": rows, "last": last}


@dataclass(frozen=True, kw_only=True)
class SetsJob(TextsJob):
    """Writes WORK/sets/NUMBER.arrow: the shingle sets of a unit's documents that are candidates."""

    suffixes: ClassVar[Sequence[str]] = (".arrow",)
    wanted: Relation
    near: Near

    @property
    def depends(self) -> object:
        return ["sets", self.upstream, self.wanted.fingerprint]

    def __call__(self) -> Facts:
        docs = docs_of_unit([self.wanted], self.number)
        write_sets(self.texts, docs, docs, self.near, self.outputs[0])
        return {}


def write_sets(texts: Address, wanted: Ints, numbers: Ints, near: Near, out: Address) -> None:
    """The sets of the documents `wanted` (sorted) of a file of texts, known by `numbers`, as a file to be mapped."""
    with place_at(out).writing() as file, pa.ipc.new_file(file, sets_schema()) as writer:
        for batch in batches_of(texts, ["doc", "text"]):
            for rows in set_rows(batch, wanted, numbers, near):
                writer.write_batch(rows)


@dataclass(frozen=True, kw_only=True)
class CompareJob(UnitJob):
    """Writes WORK/edges/NUMBER.parquet: those of some row groups of candidates that are near, in their order."""

    groups: tuple[tuple[Address, int], ...]
    candidates: str
    sets: Address
    near: Near

    @property
    def depends(self) -> object:
        groups = [[file.name, group] for file, group in self.groups]
        return ["edges-2", self.candidates, groups, self.near.threshold]

    def __call__(self) -> Facts:
        pairs = pa.concat_tables(_pairs_of(file, group) for file, group in self.groups)
        with place_at(self.outputs[0]).writing() as file:
            near = verified(pairs, self._sets_of, self.near.threshold)
            # Without what Spark notes in a file of its own, such as that of the pairs, and takes for the columns here.
            pq.write_table(near.replace_schema_metadata(None), file, compression="zstd")
        return {"rows": len(near)}

    def _sets_of(self, unit: int) -> Sets | FetchedSets:
        """The sets of a unit of this run, or of a part of the index."""
        path: Address = self.sets / f"{unit:08x}.arrow"
        if unit < 0:
            path = part_path(address_of(self.near.index or ""), unit - INDEX_UNIT, SETS)
        return open_sets(place_at(path))


def _pairs_of(file: Address, group: int) -> pa.Table:
    """A row group of candidates."""
    with opened(file) as found:
        return found.read_row_group(group, columns=["earlier_key", "earlier", "later"], use_threads=False)


@dataclass(frozen=True)
class NearSearch:
    """The search among signed documents that are in none of the tables `dropped` (doc)."""

    work: Workshop
    near: Near
    jobs: Sequence[SignJob]
    done: Sequence[Done]
    dropped: Sequence[Relation] = ()

    @cached_property
    def signatures(self) -> list[Relation]:
        """Those of the index, if there is one, and of this run."""
        own = relation_of(self.jobs, self.done)
        if not self.near.index:
            return [own]
        keys = open_index(self.near).keys
        rows = sum(sum(found.groups) for found in self.work.engine.map(footer, keys))
        return [Relation(tuple(keys), index_fingerprint(address_of(self.near.index)), rows), own]

    def evidence(self) -> Relation:
        """The rows (doc, kept, kept_id, similarity) of documents that go, in the order of doc.

        `kept` is negative and `kept_id` given where the kept one is in the index; `similarity` is null without
        verification.
        """
        found = self.candidates()
        verify = self.near.verify and found.rows > 0  # else there are no jobs whose files a query could read
        edges = self.edges(found) if verify else found
        resolution = Resolution(self.work, edges)
        ids = tuple(open_index(self.near).ids)
        tables = {"edges": [edges], "gone": resolution.gone(),
                  **({"ids": [Relation(ids, self.signatures[0].fingerprint)]} if ids else {})}  # fmt: skip
        near = self.work.ask(Query("near", evidence(verify, bool(ids)), tables))
        resolution.tell(near)
        return near

    def alarms(self) -> list[str]:
        """What a user should know: an index of another Unicode, buckets too large to compare all pairs."""
        files = [file for bands in self._passes for file in self.work.ask(self._crowded(bands)).files]
        crowds = [row for batch in batches_of(files) for row in batch.to_pylist()]
        return [*open_index(self.near).notes, *candidates.alarms(self.near, crowds)]

    @cached_property
    def _passes(self) -> list[range]:
        return candidates.passes(self.near, sum(table.rows for table in self.signatures))

    def candidates(self) -> Relation:
        """All distinct pairs (earlier_key, earlier, later_key, later), in the order in which they will be resolved."""
        pairs = [self._pairs(bands) for bands in self._passes]
        query = Query("candidates", candidates.DISTINCT_PAIRS, {"pairs": pairs})
        if self.work.answer(query) is None:
            self.work.progress.start("near duplicates: bands", self.near.shape[0], "bands")
            for bands in self._passes:
                self.work.ask(self._crowded(bands))
                self.work.ask(self._pairs(bands))
                self.work.forget(self._members(bands))
                self.work.progress.advance(len(bands))
        found = self.work.ask(query)
        for asked in pairs:
            self.work.forget(asked)
        return found

    def _members(self, bands: range) -> Query:
        tables = {"signatures": self.signatures, **dropped_table(self.dropped)}
        return Query("members", candidates.members(self.near, bands, bool(self.dropped)), tables, bands.start)

    def _crowded(self, bands: range) -> Query:
        members = {"members": [self._members(bands)]}
        return Query("crowded", candidates.crowded(self.near.max_bucket), members, bands.start)

    def _pairs(self, bands: range) -> Query:
        members = {"members": [self._members(bands)]}
        return Query("pairs", candidates.pairs(self.near.max_bucket), members, bands.start)

    def edges(self, found: Relation) -> Relation:
        """Those of the candidates at or over the threshold (earlier, later, similarity), in the same order."""
        sets = self.work.folder / "sets"
        jobs = [CompareJob(groups=groups, candidates=found.fingerprint, sets=sets, near=self.near, number=i,
                           folder=self.work.folder / "edges", size=1)
                for i, groups in enumerate(_parts(found))]  # fmt: skip
        shingled = self._shingled(found) if any(finished(job) is None for job in jobs) else []
        done = self.work.complete(jobs, "near duplicates: verification", "parts")
        forget(shingled)
        return relation_of(jobs, done)

    def _shingled(self, found: Relation) -> list[SetsJob]:
        """The sets of all candidates."""
        wanted = self.work.ask(Query("wanted", candidates.WANTED, {"candidates": [found]}))
        jobs = [SetsJob(texts=job.texts, upstream=done.fingerprint, wanted=wanted, near=self.near, number=job.number,
                        folder=self.work.folder / "sets", size=1)
                for job, done in zip(self.jobs, self.done, strict=True)]  # fmt: skip
        self.work.complete(jobs, "near duplicates: shingle sets", "parts")
        return jobs


def _parts(found: Relation) -> list[tuple[tuple[Address, int], ...]]:
    """The row groups of candidates, as many at a time as a job compares."""
    parts: list[list[tuple[Address, int]]] = []
    filled = 0
    for file, (groups, _) in zip(found.files, found.footers, strict=True):
        for group, rows in enumerate(groups):
            if not parts or filled + rows > _PAIRS_A_PART:
                parts.append([])
                filled = 0
            parts[-1].append((file, group))
            filled += rows
    return [tuple(part) for part in parts]
