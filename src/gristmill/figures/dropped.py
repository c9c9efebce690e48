"""What is not in a store, and why: the rows of its `dropped.parquet`, counted by reason, with examples of each.
And one document: where it lies, or why it is not there.

The file may have as many rows as a corpus has documents: it is read a few columns at a time, texts only of examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.hashing import GOLDEN
from gristmill.figures.tables import opened
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.stages.account import DROPPED
from gristmill.store.reader import Store

KEYS = ("rule", "reason", "source")
Keys = tuple[str, str, str]
Kind = tuple[str, str]  # without the source
# A document, or the row of one that was dropped, with the fields that its source carries.
Record = Mapping[str, object]
_BATCH_ROWS = 1 << 16
_TEXT_ROWS = 2048
_MOST_ROWS = 1 << 22


class DroppedRow(TypedDict, total=False):
    """A document that left: `text` where it was kept, `id` where it was known."""

    id: str | None
    source: str
    path: str
    row: int
    rule: str
    reason: str
    value: float | None
    detail: str | None
    text: str | None


@dataclass(frozen=True)
class DroppedGroup:
    """Documents that went by one rule for one reason: how many, of which sources, and some of them."""

    rule: str
    reason: str
    documents: int
    sources: Mapping[str, int]
    examples: list[DroppedRow]


@dataclass(frozen=True)
class Dropped:
    """What the file says: documents in all, if texts are there, and those asked for by reason, the commonest first."""

    documents: int
    has_texts: bool
    groups: list[DroppedGroup]


def dropped(store: Address, asked: Mapping[str, str | None], examples: int) -> Dropped:
    """Count what went from a store (or from that of a split), and take `examples` of each reason, evenly spread.

    `asked` names the rule, reason or source to look at alone; None is any.
    """
    path = _place(store)
    if path is None:
        raise ConfigError(
            f"{store} holds no {DROPPED}: `gristmill prepare` writes one into the store that it makes; joined and "
            "imported stores have none, look into those that they were made of."
        )
    with opened(path) as file:
        counted, rows = _scanned(file, asked, examples)
        _check_known(asked, counted, store)
        groups = _grouped(counted, asked, _examples(file, rows))
        return Dropped(counted.total(), "text" in file.schema_arrow.names, groups)


def dropped_documents(store: Address, doc_id: str) -> list[DroppedRow]:
    """The rows of `dropped.parquet` in a store, or beside a split, for an id."""
    path = _place(store)
    if path is None:
        return []
    with opened(path) as file:
        whole: Kind = ("", "")
        return _examples(file, {whole: _rows_of(file, doc_id)})[whole]


def dropped_page(
    store: Address, asked: Mapping[str, str | None], first: int, count: int
) -> tuple[list[DroppedRow], int | None]:
    """`count` rows from number `first` on that fit, and where to go on, None at the end of the file.

    There are fewer where they are rare: no more than 2^22 rows are looked at, about a second's worth.
    """
    path = _place(store)
    if path is None:
        return [], None
    with opened(path) as file:
        rows, after = _fitting(file, asked, first, count)
        whole: Kind = ("", "")
        return _examples(file, {whole: rows})[whole], after if after < file.metadata.num_rows else None


def _fitting(file: pq.ParquetFile, asked: Mapping[str, str | None], first: int, count: int) -> tuple[list[int], int]:
    """The next rows that fit, and the first that was not looked at; earlier row groups are passed over."""
    ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    groups = np.flatnonzero(ends > first).tolist()
    rows: list[int] = []
    at = int(ends[groups[0] - 1]) if groups and groups[0] else 0
    for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(KEYS), use_threads=False):
        fits = np.ones(len(batch), np.bool_)
        for key in KEYS:
            if asked.get(key) is not None:
                fits &= pc.equal(batch.column(key), asked[key]).fill_null(False).to_numpy(zero_copy_only=False)
        found = np.flatnonzero(fits) + at
        rows += found[found >= first].tolist()[: count - len(rows)]
        at += len(batch)
        if len(rows) == count:
            return rows, rows[-1] + 1
        if at - first > _MOST_ROWS:
            break
    return rows, at


def _rows_of(file: pq.ParquetFile, doc_id: str) -> list[int]:
    rows, at = [], 0
    for batch in file.iter_batches(_BATCH_ROWS, columns=["id"], use_threads=False):
        same = pc.equal(batch.column("id"), doc_id).fill_null(False).to_numpy(zero_copy_only=False)
        rows += (np.flatnonzero(same) + at).tolist()
        at += len(batch)
    return rows


def _place(store: Address) -> Address | None:
    return next((path for path in (store / DROPPED, store.parent / DROPPED) if place_at(path).exists()), None)


def _scanned(
    file: pq.ParquetFile, asked: Mapping[str, str | None], examples: int
) -> tuple[Counter[Keys], dict[Kind, list[int]]]:
    """Documents by rule, reason and source; and the rows of the examples by rule and reason."""
    counted: Counter[Keys] = Counter()
    rows: dict[Kind, list[int]] = {}
    at = 0
    for batch in file.iter_batches(_BATCH_ROWS, columns=list(KEYS), use_threads=False):
        for keys, found in _parted(batch):
            counted[keys] += len(found)
            if _fits(keys, asked):
                here = _spread_first(np.append(np.array(rows.get(keys[:2], []), np.int64), found + at), examples)
                rows[keys[:2]] = here.tolist()
        at += len(batch)
    return counted, rows


def _parted(batch: pa.RecordBatch) -> Iterator[tuple[Keys, Ints]]:
    """The rows of a batch by their rule, reason and source."""
    table = pa.table({**{key: batch.column(key).fill_null("") for key in KEYS}, "place": np.arange(len(batch))})
    grouped = table.group_by(KEYS, use_threads=False).aggregate([("place", "list")])
    for *keys, places in zip(*(grouped.column(name).to_pylist() for name in KEYS), grouped["place_list"], strict=True):
        rule, reason, source = map(str, keys)
        yield (rule, reason, source), places.values.to_numpy()


def _spread_first(rows: Ints, count: int) -> Ints:
    """`count` of the rows that lie evenly over the file, in its order."""
    # Row numbers times this, modulo 2^64: the lowest products belong to rows that lie evenly.
    order = np.argsort(rows.astype(np.uint64) * GOLDEN, kind="stable")
    return np.sort(rows[order[:count]])


def _fits(keys: Sequence[str], asked: Mapping[str, str | None]) -> bool:
    return all(asked.get(name) in (None, value) for name, value in zip(KEYS, keys, strict=True))


def _check_known(asked: Mapping[str, str | None], counted: Counter[Keys], store: Address) -> None:
    """Refuse a rule, reason or source by which nothing went, naming those by which something did."""
    for i, name in enumerate(KEYS):
        known = {keys[i] for keys in counted}
        if asked.get(name) is not None and asked[name] not in known:
            hint = did_you_mean(str(asked[name]), known) if known else ""
            raise ConfigError(f'Nothing went from {store} by {name}="{asked[name]}"{hint}.', arguments=name)


def _grouped(
    counted: Counter[Keys], asked: Mapping[str, str | None], examples: Mapping[Kind, list[DroppedRow]]
) -> list[DroppedGroup]:
    found: dict[Kind, Counter[str]] = {}
    for keys, count in counted.items():
        if _fits(keys, asked):
            found.setdefault(keys[:2], Counter())[keys[2]] += count
    groups = [DroppedGroup(*kind, sources.total(), sources, examples[kind]) for kind, sources in found.items()]
    return sorted(groups, key=lambda group: (-group.documents, group.rule, group.reason))


def _examples(file: pq.ParquetFile, rows: Mapping[Kind, list[int]]) -> dict[Kind, list[DroppedRow]]:
    """Read the whole rows of the examples: of the row groups that hold them, some rows at a time."""
    found: dict[Kind, list[DroppedRow]] = {kind: [] for kind in rows}
    owners = {row: kind for kind, own in rows.items() for row in own}
    first = 0
    for number in range(file.num_row_groups):
        rows_here = file.metadata.row_group(number).num_rows
        wanted = [row for row in owners if first <= row < first + rows_here]
        at = first
        for batch in file.iter_batches(_TEXT_ROWS, row_groups=[number], use_threads=False) if wanted else ():
            for row in sorted(row for row in wanted if at <= row < at + len(batch)):
                found[owners[row]] += batch.slice(row - at, 1).to_pylist()
            at += len(batch)
        first += rows_here
    return found


def find_document(path: Address, stores: Sequence[Store], doc_id: str) -> tuple[Sequence[Record], Sequence[Record]]:
    """Each document of this id with its place and text; if the stores have none, the rows by which it was dropped."""
    found = [_record(store, i) for store in stores if store.num_shards for i in store.locate([doc_id])[doc_id]]
    dropped: Sequence[Record] = () if found else dropped_documents(path, doc_id)
    if not found and not dropped:
        raise ConfigError(f"No document of {' and '.join(store.describe() for store in stores)} has the id {doc_id!r}.")
    return found, dropped


def _record(store: Store, i: int) -> Record:
    document, (start, end) = store.document(i), store.document_span(i)
    text = document.text if store.facts.tokenizer else ""
    return {"store": store.describe(), "number": i, "start": start, "end": end, **document.record, "text": text}
