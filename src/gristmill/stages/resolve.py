"""Which near duplicates go, where their edges are more than one task holds: rounds, then clusters side by side.

Rounds over all edges decide most documents, since the first one of a cluster decides all of its neighbours. They go on
while each halves what is left; what then is left are chains, in which every document waits for the one before it. It
is settled at once where it fits into a task, and otherwise cluster by cluster, some to a task. Only a single cluster
may make a task larger than others. Nothing else grows with the corpus but the tables themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gristmill.core.cached import cached_property
from gristmill.curate.dedup.resolve import GONE, LARGEST, LEFT, NEIGHBOURS, RESTLESS, STARS, dealt, settle
from gristmill.stages.relation import Relation, batches_of, table_of, table_writer
from gristmill.stages.work import Facts, Query, UnitJob, Workshop, relation_of

# Edges that a task settles, in some 200 MB.
EDGES_A_TASK = 1 << 21
_GONE = pa.schema([("doc", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class SettleJob(UnitJob):
    """Writes WORK/resolved/NUMBER.parquet: who goes by the edges of some clusters, a unit of `edges`, or by all."""

    edges: Relation
    whole: bool

    @property
    def depends(self) -> object:
        return ["settled", self.edges.fingerprint, self.number, self.whole]

    def __call__(self) -> Facts:
        columns = ["earlier", "later"]
        table = table_of(self.edges.files, columns) if self.whole else self.edges.rows_of(self.number, columns)
        gone = settle(table["earlier"].to_numpy(), table["later"].to_numpy())
        with table_writer(self.outputs[0], _GONE) as writer:
            writer.write_table(pa.table([pa.array(gone)], schema=_GONE))
        return {"rows": len(gone)}


@dataclass(frozen=True)
class Resolution:
    """Who goes by `edges` (earlier, later), each of which leads to a document that the keep rule puts later."""

    work: Workshop
    edges: Relation

    def gone(self) -> list[Relation]:
        """The documents (doc) that go."""
        rounds, left = self._rounds
        jobs = self._jobs(left)
        done = self.work.complete(jobs, "near duplicates: who goes", "parts")
        return [*rounds, relation_of(jobs, done)]

    @cached_property
    def _rounds(self) -> tuple[list[Relation], Relation]:
        """Who goes in each round, and the edges that are left when all fit, or when rounds no longer halve them."""
        gone: list[Relation] = []
        left, before = self.edges, 0
        while (rows := left.rows) > EDGES_A_TASK and (2 * rows <= before or not gone):
            gone.append(self.work.ask(Query("gone", GONE, {"edges": [left]}, len(gone)), "near duplicates: rounds"))
            left = self.work.ask(Query("left", LEFT, {"edges": [left], "gone": gone[-1:]}, len(gone)))
            before = rows
        return gone, left

    def _jobs(self, left: Relation) -> Sequence[SettleJob]:
        folder, bins = self.work.folder / "resolved", 2 * left.rows // EDGES_A_TASK
        if bins <= 2:
            return [SettleJob(edges=left, whole=True, folder=folder, size=1)]
        tables = {"edges": [left], "labels": [self._clusters[-1]]}
        edges = self.work.ask(Query("dealt", dealt(bins), tables))
        return [SettleJob(edges=edges, whole=False, number=i, folder=folder, size=1) for i in range(bins)]

    @cached_property
    def _clusters(self) -> list[Relation]:
        """The labels of clusters after each round, the last ones right."""
        _, left = self._rounds
        labels = [self.work.ask(Query("labels", NEIGHBOURS, {"edges": [left]}), "near duplicates: clusters")]
        while self.work.ask(Query("restless", RESTLESS, {"labels": labels[-1:]}, len(labels))).rows:
            labels.append(self.work.ask(Query("labels", STARS, {"labels": labels[-1:]}, len(labels))))
        return labels

    def tell(self, near: Relation) -> None:
        """Say how large the largest cluster of the evidence is, and how many rounds it took to find all."""
        if not near.rows:
            return
        found = self.work.ask(Query("largest", LARGEST, {"near": [near]}))
        (largest,) = (row["documents"] for batch in batches_of(found.files) for row in batch.to_pylist())
        self.work.progress.note(
            f"{near.rows:,} near duplicates go, the largest cluster has {largest + 1:,} documents{self._told_rounds()}."
        )

    def _told_rounds(self) -> str:
        rounds, left = self._rounds
        looks = f", to find clusters: {len(self._clusters)}" if len(self._jobs(left)) > 1 else ""
        return f" (rounds over all pairs: {len(rounds)}{looks})" if rounds else ""
