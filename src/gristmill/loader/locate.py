"""Where the tokens of a plan's samples lie: a row is a stretch of the stream, or documents and windows of them."""

from __future__ import annotations

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import StoreError
from gristmill.loader.pieces import Pieces
from gristmill.order.cut import DocumentCut, StreamCut, window_spans
from gristmill.order.phases import Segment
from gristmill.order.plan import Plan
from gristmill.store.table import ShardTable

_NONE = np.empty(0, dtype=np.int64)


def find_pieces(plan: Plan, table: ShardTable, segment: Segment, samples: Ints) -> Pieces:
    """The pieces of samples, row by row."""
    cut = plan.sources[0].cut
    if isinstance(cut, StreamCut):
        return _stretches(plan, table, segment, samples, cut.starts(samples[:, 2], segment.seq_len))
    return _windows(plan, table, samples, segment.seq_len)


def _stretches(plan: Plan, table: ShardTable, segment: Segment, samples: Ints, first: Ints) -> Pieces:
    """One stretch of the stream a row, from `first` on."""
    # A store that grew since the plan was made must not lend its new tokens as labels.
    pinned = zip(plan.sources, segment.lanes, strict=True)
    limits = np.array([source.store.tokens_in(lane.shards) for source, lane in pinned])
    rows, zeros = np.arange(len(samples)), np.zeros(len(samples), dtype=np.int64)
    lengths = np.full(len(samples), segment.seq_len, dtype=np.int64)
    follows = first + segment.seq_len < limits[samples[:, 0]]
    return Pieces(rows, zeros, table.bases[samples[:, 0]] + first, lengths, follows, zeros)


def _windows(plan: Plan, table: ShardTable, samples: Ints, seq_len: int) -> Pieces:
    """Documents or windows of them side by side; an empty one, which foreign files may have, is no piece."""
    rows, documents, windows = _documents(plan, table, samples, seq_len)
    first, end = _spans(table, documents)
    whole = end - first
    start, lengths = window_spans(whole, windows, seq_len)
    ends = np.cumsum(lengths)
    row_starts = np.append(0, ends)[np.searchsorted(rows, rows)]
    columns, follows = ends - lengths - row_starts, start + lengths < whole
    if plan.cut.lone:
        pieces = Pieces(rows, columns, first, lengths, follows, whole - lengths)
        return pieces if lengths.all() else Pieces._make(column[lengths > 0] for column in pieces)
    if (lengths < 1).any() or (columns + lengths > seq_len).any():
        raise StoreError("A pack index does not fit the documents of its store: run `gristmill index --force`.")
    return Pieces(rows, columns, first + start, lengths, follows, np.zeros_like(rows))


def _documents(plan: Plan, table: ShardTable, samples: Ints, seq_len: int) -> tuple[Ints, Ints, Ints]:
    """Row, document and window of each piece, as the cut of each source places them, in row order."""
    cuts = [source.cut for source in plan.sources if isinstance(source.cut, DocumentCut)]
    parts = [(_NONE, _NONE, _NONE)]  # a rank may have no row of a short last batch
    for k in np.unique(samples[:, 0]):
        here = np.flatnonzero(samples[:, 0] == k)
        which, documents, windows = cuts[k].windows(samples[here, 2], seq_len)
        parts.append((here[which], table.documents.bases[k] + documents, windows))
    if len(parts) == 2:
        return parts[1]
    rows, documents, windows = (np.concatenate(column) for column in zip(*parts, strict=True))
    by_row = np.argsort(rows, kind="stable")
    return rows[by_row], documents[by_row], windows[by_row]


def _spans(table: ShardTable, documents: Ints) -> tuple[Ints, Ints]:
    """The first token of documents and the one after the last, both counted through the whole table."""
    from gristmill.store.kernels import document_spans  # which imports Numba: not before the first batch

    spans = np.empty((len(documents), 2), dtype=np.int64)
    with table.documents.leased(table.documents.shards_of(documents)) as shards:
        document_spans(shards, documents, spans)
    return np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1])
