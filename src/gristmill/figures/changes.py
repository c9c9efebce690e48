"""Two stores compared: documents added, removed and changed, by source and by the rule that made the difference.

Documents are told apart by a 64-bit hash of their id: of two stores with 10^7 documents, two ids fall together once in
90,000 such comparisons at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gristmill.figures.dropped import dropped_documents
from gristmill.figures.picture import opened
from gristmill.figures.store import StoreFigures, store_figures
from gristmill.figures.tables import connection, document_files, rows
from gristmill.figures.texts import text_of
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.stages.account import DROPPED
from gristmill.store.reader import Store

if TYPE_CHECKING:
    import duckdb

_MEMORY = "700MB"
_EXAMPLES = 2  # of each kind, source and rule
_MOST_EXAMPLES = 40
_TEXT_TOKENS = 4000
_NO_RULE = ""
_DOCS = pa.schema([("id", pa.string()), ("source", pa.string()), ("content_hash", pa.int64()), ("length", pa.int64())])
_GONE = pa.schema([("id", pa.string()), ("rule", pa.string())])
KINDS = ("added", "removed", "changed")


@dataclass(frozen=True)
class SourceChange:
    """Documents and tokens of a source in both stores, and what became of the documents."""

    source: str
    before: int
    after: int
    tokens_before: int
    tokens_after: int
    added: int
    removed: int
    changed: int


@dataclass(frozen=True)
class RuleChange:
    """Documents that came because a rule does not drop them any more, and that went because it now does.

    An empty name stands for documents of which no rule of the other store knows: inputs that are new, or gone.
    """

    rule: str
    added: int
    removed: int


@dataclass(frozen=True)
class ChangeExample:
    """One document that differs, with its texts where they are on disk."""

    kind: str
    id: str
    source: str
    rule: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class StoreChanges:
    """What leads from one store to another."""

    before: StoreFigures
    after: StoreFigures
    same: int
    sources: list[SourceChange]
    rules: list[RuleChange]
    examples: list[ChangeExample]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {**vars(self), "before": self.before.to_dict(), "after": self.after.to_dict()}


def store_changes(before: Address, after: Address) -> StoreChanges:
    """Compare the documents' tables of two stores, all splits together; repeats of a mix count once."""
    figures = {"old": store_figures(before), "new": store_figures(after)}
    stores = {"old": opened(before, figures["old"]), "new": opened(after, figures["new"])}
    with connection(_MEMORY) as database:
        for name, root in (("old", before), ("new", after)):
            _load(database, name, document_files(stores[name]), root)
        _compare(database)
        same = database.execute("SELECT count(*) FROM compared WHERE kind = 'same'").fetchall()[0][0]
        sources = [SourceChange(*row) for row in database.execute(_BY_SOURCE).fetchall()]
        rules = [RuleChange(*row) for row in database.execute(_BY_RULE).fetchall()]
        chosen = database.execute(_CHOSEN).fetchall()
        names = _named(database, stores, [row[0] for row in chosen])
    roots = {"old": before, "new": after}
    examples = [_example(names[key], kind, source, rule, stores, roots) for key, kind, source, rule in chosen]
    return StoreChanges(figures["old"], figures["new"], same, sources, rules, examples)


def _load(database: duckdb.DuckDBPyConnection, name: str, files: Sequence[str], root: Address) -> None:
    database.register("given", rows(files, _DOCS))
    database.execute(
        f"CREATE TABLE {name} AS SELECT hash(id) AS key, any_value(source) AS source,"
        " any_value(content_hash) AS content, sum(length)::BIGINT AS tokens FROM given GROUP BY 1"
    )
    account = [str(root / DROPPED)] if place_at(root / DROPPED).exists() else []
    database.register("given", rows(account, _GONE))
    database.execute(
        f"CREATE TABLE {name}_gone AS SELECT hash(id) AS key, any_value(rule) AS rule FROM given GROUP BY 1"
    )


def _compare(database: duckdb.DuckDBPyConnection) -> None:
    """A row for each document of either store, with the rule of the other one that explains why it is there alone."""
    database.execute("""
        CREATE TABLE compared AS
        SELECT coalesce(new.key, old.key) AS key, coalesce(new.source, old.source) AS source,
            old.tokens AS tokens_before, new.tokens AS tokens_after,
            CASE WHEN old.key IS NULL THEN 'added' WHEN new.key IS NULL THEN 'removed'
                 WHEN old.content <> new.content THEN 'changed' ELSE 'same' END AS kind,
            CASE WHEN old.key IS NULL THEN coalesce(old_gone.rule, '') WHEN new.key IS NULL
                 THEN coalesce(new_gone.rule, '') ELSE '' END AS rule
        FROM new FULL JOIN old ON new.key = old.key
            LEFT JOIN old_gone ON old.key IS NULL AND old_gone.key = new.key
            LEFT JOIN new_gone ON new.key IS NULL AND new_gone.key = old.key
    """)


_BY_SOURCE = """
    SELECT source, count(tokens_before), count(tokens_after), coalesce(sum(tokens_before), 0)::BIGINT,
        coalesce(sum(tokens_after), 0)::BIGINT, count(*) FILTER (kind = 'added'), count(*) FILTER (kind = 'removed'),
        count(*) FILTER (kind = 'changed')
    FROM compared GROUP BY 1 ORDER BY 1
"""
_BY_RULE = """
    SELECT rule, count(*) FILTER (kind = 'added') AS added, count(*) FILTER (kind = 'removed') AS removed
    FROM compared WHERE kind IN ('added', 'removed') GROUP BY 1 ORDER BY added + removed DESC, rule
"""
_CHOSEN = f"""
    SELECT key, kind, source, rule FROM compared WHERE kind <> 'same'
    QUALIFY row_number() OVER (PARTITION BY kind, source, rule ORDER BY key) <= {_EXAMPLES}
    ORDER BY kind, source, rule, key LIMIT {_MOST_EXAMPLES}
"""


def _named(
    database: duckdb.DuckDBPyConnection, stores: Mapping[str, Sequence[Store]], keys: Sequence[int]
) -> dict[int, str]:
    """The ids of examples, by one more pass over both tables."""
    found: dict[int, str] = {}
    wanted: list[Any] = [keys]
    for own in stores.values() if keys else ():
        database.register("given", rows(document_files(own), pa.schema([("id", pa.string())])))
        query = "SELECT DISTINCT hash(id), id FROM given WHERE hash(id) IN (SELECT unnest($1::UBIGINT[]))"
        found.update(database.execute(query, wanted).fetchall())
    return found


def _example(
    doc_id: str, kind: str, source: str, rule: str, stores: Mapping[str, Sequence[Store]], roots: Mapping[str, Address]
) -> ChangeExample:
    """A document that one store does not hold is shown as its account kept it."""
    texts = [text_of(stores[name], doc_id, _TEXT_TOKENS) for name in ("old", "new")]
    for at, name in enumerate(("old", "new")):
        if texts[at] is None and rule != _NO_RULE:
            texts[at] = next((row.get("text") for row in dropped_documents(roots[name], doc_id)), None)
    return ChangeExample(kind, doc_id, source, rule, *texts)
