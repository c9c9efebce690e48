"""What a model has been trained on up to a step: tokens by document, source, domain and licence; and a take-down list.

Documents are gone through some thousands at a time and written as they come, sums are DuckDB's: memory does not grow
with the stores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.core.progress import Progress
from gristmill.order.cut import Window
from gristmill.order.plan import Plan
from gristmill.order.trace import sightings
from gristmill.order.trained import excluded, trained_tokens
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.store.reader import Store

_LICENCES = ("license", "licence")
_HOST = r"^[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/@?#]*@)?(?P<host>[^/:?#]+)"
_SCHEMA = pa.schema(
    [("store", pa.string()), ("source", pa.string()), ("id", pa.string()), ("tokens", pa.int64()),
     ("domain", pa.string()), ("licence", pa.string())]
)  # fmt: skip
_SHOWN = 20
# A window begins at every token, so that few documents have many of them.
_WINDOWS = 1 << 22
_MEMORY = "1GB"


@dataclass(frozen=True)
class Share:
    """Documents that have been trained on, and their tokens, under one name; None where a document has none."""

    name: str | None
    documents: int
    tokens: int


@dataclass(frozen=True)
class Ledger:
    """All tokens that were trained on before step `until`; domains and licences as far as the stores carry them.

    A token that was served twice counts twice. domains: the 20 with most tokens, of domain_count.
    """

    until: int
    steps: int
    documents: int
    tokens: int
    sources: Sequence[Share]
    domains: Sequence[Share]
    domain_count: int
    licences: Sequence[Share]


@dataclass(frozen=True)
class TakeDown:
    """Ids that were asked for: how many are known, and how many of these the model has been trained on.

    table: id, store, tokens, rows that held it, first_step, last_step and all steps, one row a document.
    """

    until: int
    asked: int
    known: int
    trained: int
    tokens: int
    unknown: Sequence[str]
    table: pa.Table = field(repr=False)


def make_ledger(plan: Plan, until: int, out: Address | None, progress: Progress) -> Ledger:
    """Count everything; one row a document that was trained on goes to `out`, a Parquet file."""
    check_until(plan, until)
    with _beside(out) as path:
        progress.start("counting", sum(source.store.documents_in(source.store.num_shards) for source in plan.sources),
                       "documents")  # fmt: skip
        with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as file:
            for k in range(len(plan.sources)):
                for table in _counted(plan, k, until, progress):
                    file.write_table(table)
        return _summed(plan, until, path)


@contextmanager
def _beside(out: Address | None) -> Iterator[Path]:
    """A file of this machine to write and to query; it becomes `out` when all is well."""
    with tempfile.TemporaryDirectory(prefix="gristmill-ledger-") as folder:
        path = Path(folder) / "ledger.parquet"
        yield path
        if out is not None:
            with place_at(path).open() as file, place_at(out).writing() as target:
                while part := file.read(1 << 24):
                    target.write(part)


def check_until(plan: Plan, until: int) -> None:
    """Refuse a step that the plan does not have."""
    if plan.total_steps is not None and until > plan.total_steps:
        raise ConfigError(f"The plan has {plan.total_steps:,} steps, so that --until {until:,} is past its end.")


def _counted(plan: Plan, k: int, until: int, progress: Progress) -> Iterator[pa.Table]:
    """The documents of a source that were trained on, as rows of the ledger."""
    source, store, first = plan.sources[k], cast(Store, plan.sources[k].store), 0
    for shard in range(store.num_shards):
        for table in store.document_tables(shard, ("domain", "url", *_LICENCES)):
            documents = np.arange(first, first + table.num_rows)
            parts = np.array_split(documents, _parts(plan, k, documents))
            tokens = np.concatenate([trained_tokens(plan, k, part, until) for part in parts])
            kept = pa.array(tokens > 0)
            yield _rows(source.name, table.filter(kept), tokens[tokens > 0])
            first += table.num_rows
            progress.advance(table.num_rows)


def _parts(plan: Plan, k: int, documents: Ints) -> int:
    """In how many parts documents are counted, so that memory is bounded."""
    source = plan.sources[k]
    if not isinstance(source.cut, Window) or not len(documents):
        return 1
    start, end = source.store.document_spans(documents)
    return 1 + int((end - start + plan.seq_len).sum()) // _WINDOWS


def _rows(store: str, table: pa.Table, tokens: Ints) -> pa.Table:
    missing = pa.nulls(table.num_rows, pa.string())
    licences = [table[name].cast(pa.string()) for name in _LICENCES if name in table.column_names]
    return pa.table(
        {
            "store": pa.array([store] * table.num_rows, pa.string()),
            "source": table["source"].cast(pa.string()),
            "id": table["id"].cast(pa.string()),
            "tokens": tokens,
            "domain": _domains(table, missing),
            "licence": licences[0] if licences else missing,
        },
        _SCHEMA,
    )


def _domains(table: pa.Table, missing: pa.Array) -> pa.ChunkedArray | pa.Array:
    """The field `domain`, or else the host of `url`."""
    if "domain" in table.column_names:
        return table["domain"].cast(pa.string())
    if "url" not in table.column_names:
        return missing
    found = pc.extract_regex(table["url"].cast(pa.string()), _HOST)
    return pc.utf8_lower(pc.struct_field(found, "host"))


def _summed(plan: Plan, until: int, path: Path) -> Ledger:
    with duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": str(path.parent / "spill")}) as database:
        database.read_parquet(str(path)).create_view("ledger")

        def by(key: str, most: int | None = None) -> list[Share]:
            limit = "" if most is None else f" LIMIT {most}"
            sql = f"SELECT {key}, count(*), sum(tokens)::BIGINT FROM ledger GROUP BY 1 ORDER BY 3 DESC, 1{limit}"
            return [Share(*row) for row in database.sql(sql).fetchall()]

        total = "SELECT count(*), coalesce(sum(tokens), 0)::BIGINT, count(DISTINCT domain) FROM ledger"
        documents, tokens, domains = database.sql(total).fetchall()[0]
        name = "CASE WHEN store = source THEN store ELSE store || ': ' || source END"
        return Ledger(
            until=until,
            steps=plan.skips.served(until),
            documents=documents,
            tokens=tokens,
            sources=by(name),
            domains=by("domain", _SHOWN) if domains else [],
            domain_count=domains,
            licences=_known(by("licence")),
        )


def _known(shares: list[Share]) -> list[Share]:
    return [] if all(share.name is None for share in shares) else shares


def take_down(plan: Plan, ids: Sequence[str], until: int) -> TakeDown:
    """In which steps before `until` the documents with these ids were seen."""
    check_until(plan, until)
    wanted = list(dict.fromkeys(ids))
    tables, found = [], set[str]()
    for k, source in enumerate(plan.sources):
        places = [(text, number) for text, numbers in source.store.locate(wanted).items() for number in numbers]
        found.update(text for text, _ in places)
        tables.append(_seen(plan, k, source.name, places, until))
    table = pa.concat_tables(tables)
    seen = table.filter(pc.greater(table["rows"], 0))
    return TakeDown(
        until=until,
        asked=len(wanted),
        known=len(found),
        trained=pc.count_distinct(seen["id"]).as_py(),
        tokens=int(pc.sum(table["tokens"]).as_py() or 0),
        unknown=[text for text in wanted if text not in found],
        table=table,
    )


def _seen(plan: Plan, k: int, store: str, places: Sequence[tuple[str, int]], until: int) -> pa.Table:
    """One row a document of a source, with all steps in which it was seen."""
    documents = np.array([number for _, number in places], dtype=np.int64)
    found = sightings(plan, k, documents, until)
    kept = np.ones(len(found.step), np.bool_)
    for from_step, out in excluded(plan, k, documents):
        kept &= ~(np.isin(found.which, out) & (found.step >= from_step))
    which, step = found.which[kept], found.step[kept]
    order = np.lexsort((step, which))
    which, step = which[order], step[order]
    rows = np.bincount(which, minlength=len(documents))
    offsets = np.append(0, np.cumsum(rows))
    steps = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(step, pa.int64()))
    return pa.table(
        {
            "id": pa.array([text for text, _ in places], pa.string()),
            "store": pa.array([store] * len(places), pa.string()),
            "tokens": pa.array(trained_tokens(plan, k, documents, until), pa.int64()),
            "rows": pa.array(rows, pa.int64()),
            "first_step": pc.list_element(_or_null(steps), 0),
            "last_step": pa.array([step[end - 1] if n else None for end, n in zip(offsets[1:], rows, strict=True)],
                                  pa.int64()),
            "steps": steps,
        }
    )  # fmt: skip


def _or_null(steps: pa.ListArray) -> pa.ListArray:
    """Lists, null where they are empty: of those no element can be taken."""
    return pc.if_else(pc.equal(pc.list_value_length(steps), 0), None, steps)
