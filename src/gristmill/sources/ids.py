"""Ids that name two documents: the second is refused, for neither could be found again by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gristmill.core.errors import SourceError
from gristmill.sources.base import Mishaps

if TYPE_CHECKING:
    import pyarrow as pa

# Ids that are remembered: about 100 MB at most. Beyond, only the comparison across units finds repeated ones.
_MOST_IDS = 1_000_000


def first_of_each(batch: pa.RecordBatch, seen: set[str], mishaps: Mishaps) -> pa.RecordBatch:
    """The batch without documents whose id was seen before, each of which is a mishap; its ids are seen from now on."""
    ids = batch.column("id").to_pylist()
    fresh = set(ids)
    if len(fresh) < len(ids) or not seen.isdisjoint(fresh):
        batch = _without_repeated(batch, ids, seen, mishaps)
    if len(seen) < _MOST_IDS:
        seen |= fresh
    return batch


def _without_repeated(batch: pa.RecordBatch, ids: list[str], seen: set[str], mishaps: Mishaps) -> pa.RecordBatch:
    import pyarrow as pa

    here: set[str] = set()
    kept = []
    for row, id in enumerate(ids):
        if id in seen or id in here:
            mishaps.report(_repeated(batch, row), batch.column("source")[row].as_py())
        else:
            kept.append(row)
            here.add(id)
    return batch.take(pa.array(kept, pa.int64()))


def _repeated(batch: pa.RecordBatch, row: int) -> SourceError:
    id, source, path, place = (batch.column(name)[row].as_py() for name in ("id", "source", "path", "row"))
    return SourceError(
        f"{path} (source {source!r}) has at {place:,} the id {id!r} of an earlier document: give each its own, "
        "name another id field, or say --on-error skip."
    )
