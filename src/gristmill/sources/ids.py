"""Ids that name two documents: the second is refused, for neither could be found again by it."""

from __future__ import annotations

import pyarrow as pa

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps, skippable

# Ids that are remembered: about 100 MB at most. Beyond, only the comparison across units finds repeated ones.
_MOST_IDS = 1_000_000


def first_of_each(batch: pa.RecordBatch, seen: set[str], file: InputFile, mishaps: Mishaps) -> pa.RecordBatch:
    """The batch without documents whose id was seen before, each of which is a mishap; its ids are seen from now on."""
    ids = batch.column("id").to_pylist()
    fresh = set(ids)
    if len(fresh) < len(ids) or not seen.isdisjoint(fresh):
        batch = _without_repeated(batch, ids, seen, file, mishaps)
    if len(seen) < _MOST_IDS:
        seen |= fresh
    return batch


def _without_repeated(
    batch: pa.RecordBatch, ids: list[str], seen: set[str], file: InputFile, mishaps: Mishaps
) -> pa.RecordBatch:
    here: set[str] = set()
    kept = []
    for row, id in enumerate(ids):
        if id in seen or id in here:
            place = batch.column("row")[row].as_py()
            mishaps.report(_repeated(id, place, file), file, id, place)
        else:
            kept.append(row)
            here.add(id)
    return batch.take(pa.array(kept, pa.int64()))


def _repeated(id: str, place: int, file: InputFile) -> SourceError:
    return skippable(
        f"{file.name} (source {file.source!r}) has at {place:,} the id {id!r} of an earlier document.",
        "Give each its own, name another id field",
    )
