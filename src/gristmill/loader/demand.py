"""Which extents of which shards the steps of a plan read: what a loader fetches, and what can be foretold of it.

demand = Demand(plan, labels=True)
shards, starts, ends = demand.of(plan.segment(step), plan.samples(step))     # bytes of shards, in order of first use

All of it is arithmetic for `chunk` and `window`; `pad` and `pack` look up documents in the indices of their stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.loader.locate import find_pieces
from gristmill.loader.pieces import Pieces
from gristmill.order.phases import Segment
from gristmill.order.plan import Plan
from gristmill.store.blocks import BLOCK, sums_bytes
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.grid import MOST_BYTES, Grid, make_grid
from gristmill.store.opening import as_store
from gristmill.store.reader import Store
from gristmill.store.seekable import seek_table_size
from gristmill.store.table import table_of

# What is read at once where documents that follow each other in a file are served near each other.
_DOCUMENTS_BYTES = 64 << 10


def stores_of(plan: Plan) -> list[Store]:
    """The opened stores of a plan's sources."""
    return [as_store("A source", source.store) for source in plan.sources]


def extent_tokens(plan: Plan, itemsizes: Sequence[int], kept: Sequence[bool] = ()) -> tuple[int, ...]:
    """For each source of a plan the tokens of its extents, where it is fetched and not compressed.

    kept: sources that a cache has room for as a whole, so that in the end all of their bytes are fetched, once.
    """
    whole = kept or [False] * len(itemsizes)
    return tuple(_tokens(plan, k, itemsize, whole[k]) for k, itemsize in enumerate(itemsizes))


def _tokens(plan: Plan, k: int, itemsize: int, kept: bool) -> int:
    """A block of the plan where there are any; else what a sample reads, as far as that can be known."""
    first, near = plan.segments[0], plan.segments[0].lanes[k].order.locality
    if plan.options.cut == "chunk":
        if near is not None:
            return _divided(near.block * first.unit, itemsize)
        shortest = min(segment.seq_len for segment in plan.segments)
        return shortest * max(MOST_BYTES // (shortest * itemsize), 1) if kept or not plan.options.shuffle else shortest
    if kept:
        return MOST_BYTES // itemsize
    return (_DOCUMENTS_BYTES if documents_are_near(plan, k, itemsize) else BLOCK) // itemsize


def documents_are_near(plan: Plan, k: int, itemsize: int) -> bool:
    """Whether documents that lie together are read together: then they share a request.

    The bins of a range of `pack` are filled from all over it, so a block of them should be about as large as a range.
    """
    first, near = plan.segments[0], plan.segments[0].lanes[k].order.locality
    if plan.options.shuffle and near is None:
        return False
    if plan.options.cut != "pack":
        return plan.options.cut == "pad"
    block = near.block if near is not None else MOST_BYTES // (first.seq_len * itemsize)
    return as_store("A source", plan.sources[k].store).pack_index(first.seq_len).bins_a_range <= 2 * block


def _divided(tokens: int, itemsize: int) -> int:
    """A block in equal parts of at most twice what one request is good for, if there are such."""
    fewest = -(-tokens * itemsize // (2 * MOST_BYTES))
    return next((tokens // count for count in range(fewest, 2 * fewest + 1) if tokens % count == 0), tokens)


def window_bytes(plan: Plan, itemsizes: Sequence[int], edge_tokens: int) -> int:
    """What the windows of all sources hold: a plan with locality reads each block once, if they stay.

    edge_tokens: how much of its neighbours a block may bring along on each side.
    """
    near = plan.options.locality
    if near is None:
        return 0
    tokens = near.block * max(segment.seq_len for segment in plan.segments)
    return sum((near.window + 1) * (tokens + 2 * edge_tokens) * itemsize for itemsize in itemsizes)


def reach(pieces: Pieces, labels: bool) -> Ints:
    """Tokens that are read from each piece's position on: the one after it is its last label."""
    return pieces.lengths + pieces.follows if labels else pieces.lengths


class Demand:
    """What the samples of a plan read if all its stores were fetched; a compressed one is told as it is unpacked."""

    def __init__(self, plan: Plan, labels: bool) -> None:
        self._plan, self._labels, self._stores = plan, labels, stores_of(plan)
        stores = self._stores
        self._table = table = table_of(stores)
        tokens = extent_tokens(plan, [store.dtype.itemsize for store in stores])
        everywhere = np.ones(len(table.headers), dtype=np.bool_)
        self.grid: Grid = make_grid(
            table.starts, table.itemsizes, table.firsts, fetched=everywhere, compressed=table.compressed, tokens=tokens
        )

    def of(self, segment: Segment, samples: Ints) -> tuple[Ints, Ints, Ints]:
        """Shard, first byte and end of each extent that samples touch, once each, in the order of first use."""
        shards, places = self.extents(segment, samples)
        return shards, *self.grid.byte_ranges(shards, places)

    def extents(self, segment: Segment, samples: Ints) -> tuple[Ints, Ints]:
        """The same extents by shard and place."""
        pieces = find_pieces(self._plan, self._table, segment, samples)
        return self.grid.placed(self.grid.in_order_of_use(pieces.positions, reach(pieces, self._labels)))

    def touches(self, segment: Segment, samples: Ints) -> tuple[Ints, Ints]:
        """Row and extent, which `grid` counts through all shards, of all that each row touches, row by row."""
        pieces = find_pieces(self._plan, self._table, segment, samples)
        which, numbers = self.grid.numbers(pieces.positions, reach(pieces, self._labels))
        return pieces.rows[which], numbers

    def byte_ranges(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """Shard, first byte and end of extents; frames of a compressed shard are taken to be of one size."""
        shards, places = self.grid.placed(numbers)
        starts, ends = self.grid.byte_ranges(shards, places)
        ratios = np.ones(len(self._table.headers))
        for shard in np.flatnonzero(self._table.compressed).tolist():
            ratios[shard] = self._table.bins.size(shard) / self._table.sizes[shard]
        return shards, (starts * ratios[shards]).astype(np.int64), (ends * ratios[shards]).astype(np.int64)

    def side_bytes(self) -> Ints:
        """What is fetched of each shard beside its tokens, once: the sums of its blocks, or where its frames lie."""
        summed = np.concatenate([store.files.blocks_checksums != b"" for store in self._stores])
        frames = np.array([seek_table_size(tokens) for tokens in np.diff(self._table.starts).tolist()])
        return np.where(self._table.compressed, frames, np.where(summed, sums_bytes(self._table.sizes), 0))

    def window_bytes(self) -> int:
        """What the windows of all sources hold."""
        edge = FRAME_TOKENS if self._table.compressed.any() else BLOCK
        return window_bytes(self._plan, [store.dtype.itemsize for store in self._stores], edge)

    def of_steps(self, steps: range) -> Iterator[tuple[Ints, Ints, Ints]]:
        """What each step touches, by itself."""
        for step in steps:
            yield self.of(self._plan.segment(step), self._plan.samples_of_steps(step, 1))
