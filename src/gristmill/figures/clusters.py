"""Clusters of duplicates: the document that stayed, and how many went in its favour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gristmill.figures.dropped import dropped_documents
from gristmill.figures.tables import connection, rows
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.stages.account import EVIDENCE
from gristmill.store.reader import Store

_LARGEST = 10
_SHOWN = 3  # clusters of which two members are shown
_TEXT_CHARS = 20_000


@dataclass(frozen=True)
class Pair:
    """Two members of a cluster; a text is None where it is not on disk any more."""

    kept_id: str
    kept_text: str | None
    gone_id: str
    gone_text: str | None
    similarity: float | None


@dataclass(frozen=True)
class Cluster:
    """The id that stayed, how many went for it, and how near they were to it at least (1 for equal texts)."""

    rule: str
    kept_id: str
    gone: int
    similarity: float
    example: str


@dataclass(frozen=True)
class ClusterFigures:
    """How many clusters have how many members, the one that stayed among them; and the largest, with members."""

    documents: int
    sizes: list[tuple[int, int]]  # members at least (a power of two), clusters
    largest: list[Cluster]
    pairs: list[Pair]


def cluster_figures(root: Address, stores: Sequence[Store]) -> ClusterFigures | None:
    """What `duplicates.parquet` says; None where a store has none."""
    path = root / EVIDENCE
    if not place_at(path).exists():
        return None
    schema = pa.schema([("id", pa.string()), ("kept_id", pa.string()), ("similarity", pa.float64()),
                        ("rule", pa.string())])  # fmt: skip
    with connection() as database:
        database.register("gone", rows([str(path)], schema))
        database.execute(
            "CREATE TABLE clusters AS SELECT rule, kept_id, count(*) AS gone, min(coalesce(similarity, 1)) AS nearest,"
            " min(id) AS example FROM gone WHERE kept_id IS NOT NULL GROUP BY ALL"
        )
        sizes = database.execute(
            "SELECT (2 ** floor(log2(gone + 1)))::BIGINT AS size, count(*) FROM clusters GROUP BY 1 ORDER BY 1"
        ).fetchall()
        documents = database.execute("SELECT coalesce(sum(gone), 0)::BIGINT FROM clusters").fetchall()[0][0]
        largest = database.execute(
            f"SELECT * FROM clusters ORDER BY gone DESC, rule, kept_id LIMIT {_LARGEST}"
        ).fetchall()
    found = [Cluster(*row) for row in largest]
    shown = [cluster for cluster in found if cluster.similarity < 1][:_SHOWN]  # equal texts show nothing
    return ClusterFigures(documents, sizes, found, [_pair(root, stores, cluster) for cluster in shown])


def _pair(root: Address, stores: Sequence[Store], cluster: Cluster) -> Pair:
    gone = dropped_documents(root, cluster.example)
    kept = _text(stores, cluster.kept_id) or _dropped_text(root, cluster.kept_id)
    nearness = cluster.similarity if cluster.gone == 1 else None
    return Pair(cluster.kept_id, kept, cluster.example, _cut(gone[0].get("text")) if gone else None, nearness)


def _text(stores: Sequence[Store], doc_id: str) -> str | None:
    for store in stores:
        for number in store.locate([doc_id])[doc_id] if store.num_shards and store.facts.tokenizer else ():
            begin, end = store.document_span(number)
            return _cut(store.decode(store.tokens(begin, min(end - 1, begin + _TEXT_CHARS))))
    return None


def _dropped_text(root: Address, doc_id: str) -> str | None:
    """A mix, or a rule after dedup, may have taken out the one that stayed."""
    return next((_cut(row.get("text")) for row in dropped_documents(root, doc_id)), None)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_TEXT_CHARS]
