"""Rows of many lanes as arrays: one table of the blocks' own memory, one compiled pass.

Row r of step s is row s x lanes + r of a group; each lane's rows come with the numbers that they have there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.loader.batch import Tally
from gristmill.loader.fill import NO_DOCUMENTS, Batch, Filler
from gristmill.loader.pieces import Pieces
from gristmill.streams.blocks import Block
from gristmill.streams.cuts import Taken

if TYPE_CHECKING:
    from gristmill.store.table import DocumentColumns, ShardColumns

_NEED_DOCUMENTS = {"doc_ids", "position_ids", "cu_seqlens"}


class Fed(NamedTuple):
    """Rows of a lane: which source it is of, what it gave, and which rows of the group these are."""

    source: int
    taken: Taken
    rows: Ints


class Group(NamedTuple):
    """The batches of a few steps: arrays of (steps, rows, columns), a tally each, and the blocks that have come."""

    arrays: Batch
    tallies: list[Tally]
    arrived: list[Block]


def assemble(filler: Filler, fed: Sequence[Fed], steps: int, lanes: int, seq_len: int, multiple: int | None) -> Group:
    """The rows of all lanes, step by step; those that no lane gives are padding."""
    blocks = [block for lane in fed for block in lane.taken.blocks]
    starts = np.cumsum([0, *(len(block.tokens) for block in blocks)], dtype=np.int64)
    pieces, edges = _pieces(fed, starts, steps * lanes)
    width = seq_len if multiple is None else _width(pieces, seq_len, multiple)
    documents = NO_DOCUMENTS if _NEED_DOCUMENTS.isdisjoint(filler.keys) else _document_columns(blocks, starts)
    flat, merged = filler.fill(_shard_columns(blocks, starts), documents, pieces, edges, seq_len, width)
    arrays = {key: array.reshape(steps, lanes, -1) for key, array in flat.items()}
    arrays["sample_ids"] = _sample_ids(fed, steps * lanes).reshape(steps, lanes, 3)
    arrived = [block for lane in fed for block in lane.taken.arrived]
    return Group(arrays, _tallies(pieces, edges, steps, lanes * width, merged), arrived)


def _sample_ids(fed: Sequence[Fed], rows: int) -> Ints:
    """Source, epoch and unit of each row; -1 in padding."""
    found = np.full((rows, 3), -1, np.int64)
    for source, taken, own in fed:
        found[own, 0], found[own, 1:] = source, taken.origins
    return found


def _pieces(fed: Sequence[Fed], starts: Ints, count: int) -> tuple[Pieces, Ints]:
    """The pieces of all lanes in the order of rows, and the first of each of `count` rows."""
    firsts = np.cumsum([0, *(len(lane.taken.blocks) for lane in fed)])
    rows = np.concatenate([np.repeat(lane.rows, np.diff(lane.taken.rows.edges)) for lane in fed])
    positions = [lane.taken.rows.positions + starts[firsts[i]] for i, lane in enumerate(fed)]
    order = np.argsort(rows, kind="stable")
    row = rows[order]
    lengths, follows, truncated = (np.concatenate([lane.taken.rows[i] for lane in fed])[order] for i in (2, 3, 4))
    ends, edges = np.cumsum(lengths), np.searchsorted(row, np.arange(count + 1))
    columns = ends - lengths - np.append(0, ends)[edges[row]]
    return Pieces(row, columns, np.concatenate(positions)[order], lengths, follows, truncated), edges


def _width(pieces: Pieces, seq_len: int, multiple: int) -> int:
    longest = int(pieces.lengths.max(initial=1))
    return min(-(-longest // multiple) * multiple, seq_len)


def _shard_columns(blocks: list[Block], starts: Ints) -> ShardColumns:
    """A shard table of the blocks' own memory."""
    addresses = np.array([block.tokens.ctypes.data for block in blocks], np.int64)
    itemsizes = np.array([block.tokens.itemsize for block in blocks], np.int64)
    return starts, addresses, np.zeros(len(blocks), np.int64), itemsizes


def _document_columns(blocks: list[Block], starts: Ints) -> DocumentColumns:
    """A document table of the blocks' own memory."""
    itemsizes = np.array([block.tokens.itemsize for block in blocks], np.int64)
    counts = np.cumsum([0, *(len(block.pointers) for block in blocks)], dtype=np.int64)
    addresses = np.array([block.pointers.ctypes.data for block in blocks], np.int64)
    nothing = np.zeros(len(blocks), np.int64)
    return starts, itemsizes, counts, addresses, nothing, nothing


def _tallies(pieces: Pieces, edges: Ints, steps: int, tokens: int, merged: Ints) -> list[Tally]:
    by_step = edges[:: (len(edges) - 1) // steps]
    kept, truncated = (np.diff(np.append(0, np.cumsum(c))[by_step]) for c in (pieces.lengths, pieces.truncated))
    lost = merged.reshape(steps, -1).sum(axis=1) if len(merged) else np.zeros(steps, np.int64)
    return [Tally(tokens, tokens - int(k), int(t), int(m)) for k, t, m in zip(kept, truncated, lost, strict=True)]
