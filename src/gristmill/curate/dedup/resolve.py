"""Who goes: the greedy maximal independent set over verified edges, in the order of the keep rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.curate.documents import Ints
from gristmill.places.door import place_at

_ROWS_AT_ONCE = 1 << 20


def resolve(edges: Sequence[Path], out: Path) -> None:
    """Write (doc, kept, similarity) of each document with an edge to an earlier one that is kept.

    `edges` (earlier, later[, similarity]) come in the order of (later, earlier) by the keep rule; without similarity
    the first kept one is named. 9 bytes of memory a document that is the later one of an edge.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    docs = _later_documents(edges)
    dropped = np.zeros(len(docs), np.bool_)
    schema = pa.schema([("doc", pa.int64()), ("kept", pa.int64()), ("similarity", pa.float64())])
    with place_at(out).writing() as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in _whole_documents(edges):
            writer.write_table(_settle(batch, docs, dropped, schema))


def _settle(edges: Any, docs: Ints, dropped: Any, schema: Any) -> Any:
    import pyarrow as pa

    from gristmill.curate.dedup import pair_kernels

    earlier, later = (edges[name].to_numpy() for name in ("earlier", "later"))
    verified = "similarity" in edges.column_names
    similarity = edges["similarity"].to_numpy() if verified else np.ones(len(edges))
    columns = [np.empty(len(edges), np.int64), np.empty(len(edges), np.int64), np.empty(len(edges), np.float64)]
    rows = pair_kernels.resolve(earlier, later, similarity, docs, dropped, *columns)
    arrays = [pa.array(column[:rows]) for column in columns]
    if not verified:
        arrays[2] = pa.nulls(rows, pa.float64())
    return pa.Table.from_arrays(arrays, schema=schema)


def _later_documents(edges: Sequence[Path]) -> Ints:
    """The distinct later documents, sorted. Equal ones lie together, so each batch is thinned at once."""
    found = [np.empty(0, np.int64)]
    for batch in _batches(edges, ["later"]):
        later = batch["later"].to_numpy()
        found.append(later[np.flatnonzero(np.diff(later, prepend=later[0] - 1))])
    return np.unique(np.concatenate(found))


def _batches(edges: Sequence[Path], columns: Sequence[str] | None = None) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in edges:
        for batch in pq.ParquetFile(path).iter_batches(_ROWS_AT_ONCE, columns=columns):
            if len(batch):
                yield pa.Table.from_batches([batch])


def _whole_documents(edges: Sequence[Path]) -> Iterator[Any]:
    """The edges in batches that end where a later document's edges end."""
    import pyarrow as pa

    held = None
    for batch in _batches(edges):
        table = batch if held is None else pa.concat_tables([held, batch])
        later = table["later"].to_numpy()
        cut = int(np.flatnonzero(later == later[-1])[0])
        held = table.slice(cut)
        if cut:
            yield table.slice(0, cut).combine_chunks()
    if held is not None:
        yield held.combine_chunks()
