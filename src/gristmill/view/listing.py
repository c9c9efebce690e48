"""Documents by number: so many from one on, of one source if asked, read by row group and never whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gristmill.core.arrays import Mask
from gristmill.store.documents import NamedDocuments, Record
from gristmill.store.reader import Store
from gristmill.store.table import offsets

# Documents that are looked at for those of one source before the page answers: about a second's worth.
MOST_LOOKED_AT = 4_000_000


@dataclass(frozen=True)
class Listed:
    """Documents by number with the rows of their table; `after` is where to go on, None at the end."""

    documents: Mapping[int, Record]
    after: int | None


def listed(store: Store, first: int, count: int, source: str = "") -> Listed:
    """`count` documents from number `first` on; of one source fewer, if those that are looked at have no more."""
    numbers, after = _of_source(store, first, count, source) if source else _in_turn(store, first, count)
    found = {number: store.names.record(*_place(store, number)) for number in numbers}
    return Listed(found, after if after < len(store) else None)


def _in_turn(store: Store, first: int, count: int) -> tuple[Iterable[int], int]:
    after = min(first + count, len(store))
    return range(first, after), after


def _place(store: Store, number: int) -> tuple[int, int]:
    """The shard of a document and its row there."""
    starts = offsets(store.shard_documents())
    shard = int(np.searchsorted(starts, number, side="right")) - 1
    return shard, number - int(starts[shard])


def _of_source(store: Store, first: int, count: int, source: str) -> tuple[Iterable[int], int]:
    """The numbers of the next documents of a source, and the first number that was not looked at."""
    if not isinstance(store.names, NamedDocuments):
        return _in_turn(store, first, count)
    found: list[int] = []
    after = first
    for at, same in _columns(store, first, source):
        numbers = np.flatnonzero(same) + at
        found += numbers[numbers >= first].tolist()[: count - len(found)]
        after = at + len(same)
        if len(found) == count:
            return found, found[-1] + 1
        if after - first > MOST_LOOKED_AT:
            break
    return found, after


def _columns(store: Store, first: int, source: str) -> Iterator[tuple[int, Mask]]:
    """Whether each document is of a source, a row group at a time, from the shard of document `first` on."""
    import pyarrow.compute as pc

    assert isinstance(store.names, NamedDocuments)
    shard, _ = _place(store, first)
    at = int(offsets(store.shard_documents())[shard])
    for number in range(shard, store.num_shards):
        for column in store.names.columns(number, "source"):
            yield at, pc.equal(column, source).fill_null(False).to_numpy()
            at += len(column)
