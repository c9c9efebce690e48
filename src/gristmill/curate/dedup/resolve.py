"""Who goes: the greedy maximal independent set over verified edges, in the order of the keep rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Bytes, Ints


def resolve(batches: Iterable[pa.RecordBatch], rows: Mapping[int, int]) -> Iterator[pa.Table]:
    """The rows (doc, kept, similarity) of documents that go, as their edges come.

    `batches` are edges (earlier, later[, similarity]) in the order of (later, earlier) by the keep rule; without
    similarity the first kept one is named, and the similarity is null. `rows` says of each unit how many rows it has:
    who has gone is remembered by a bit each.
    """
    units = np.array(sorted(rows), np.int64)
    ends = np.cumsum([0, *(rows[unit] for unit in units.tolist())], dtype=np.int64)
    dropped = np.zeros((int(ends[-1]) >> 3) + 1, np.uint8)
    for edges in _whole_documents(batches):
        yield _settle(edges, units, ends[:-1], dropped)


def _settle(edges: pa.Table, units: Ints, begins: Ints, dropped: Bytes) -> pa.Table:
    from gristmill.curate.dedup import pair_kernels

    earlier, later = (edges[name].to_numpy() for name in ("earlier", "later"))
    verified = "similarity" in edges.column_names
    similarity = edges["similarity"].to_numpy() if verified else np.ones(len(edges))
    columns = [np.empty(len(edges), np.int64), np.empty(len(edges), np.int64), np.empty(len(edges), np.float64)]
    count = pair_kernels.resolve(earlier, later, similarity, units, begins, dropped, *columns)
    arrays = [pa.array(column[:count]) for column in columns]
    if not verified:
        arrays[2] = pa.nulls(count, pa.float64())
    return pa.Table.from_arrays(arrays, names=["doc", "kept", "similarity"])


def _whole_documents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The edges in tables that end where a later document's edges end."""
    held = None
    for batch in (batch for batch in batches if len(batch)):
        table = pa.Table.from_batches([batch])
        table = table if held is None else pa.concat_tables([held, table])
        later = table["later"].to_numpy()
        cut = int(np.flatnonzero(later == later[-1])[0])
        held = table.slice(cut)
        if cut:
            yield table.slice(0, cut).combine_chunks()
    if held is not None:
        yield held.combine_chunks()


def named(index: bool) -> str:
    """SQL for the rows of `resolved` in the order of doc, with the `ids` of documents that an index keeps, if any."""
    kept_id, joined = ("ids.id", "LEFT JOIN ids ON resolved.kept = ids.doc") if index else ("CAST(NULL AS STRING)", "")
    columns = f"resolved.doc, resolved.kept, {kept_id} AS kept_id, resolved.similarity"
    return f"SELECT {columns} FROM resolved {joined} ORDER BY resolved.doc"
