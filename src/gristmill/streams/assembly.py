"""Rows of many lanes as arrays: one table of the blocks' own memory, one compiled pass.

Row r of step s is row s x lanes + r of a group; each lane's rows come with the numbers that they have there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.loader.batch import Tally
from gristmill.loader.fill import NO_DOCUMENTS, Batch, Filler
from gristmill.loader.pieces import Pieces
from gristmill.streams.augment import AugmentedRows
from gristmill.streams.blocks import Block
from gristmill.streams.cuts import Stretch, Taken

if TYPE_CHECKING:
    from gristmill.store.table import DocumentColumns, ShardColumns

# What batches of one stack share, so that calls become few.
_STACK_BYTES = 4 << 20
_NEED_DOCUMENTS = {"doc_ids", "position_ids", "cu_seqlens"}
_NONE, _NOTHING_TOLD = np.empty(0, np.int64), np.empty((0, 5), np.int64)
_NO_PIECES = _NONE, _NONE, np.empty(0, np.bool_), _NONE


class Fed(NamedTuple):
    """What lanes gave for some steps, lane after lane: their stretches, and which row of the group each row is.

    `lanes` has of each lane its source and how many rows it gave, `told` is that of all stretches.
    """

    stretches: list[Stretch]
    lanes: Ints
    rows: Ints
    told: Ints
    arrived: list[Block]

    @classmethod
    def of(cls, sources: Sequence[int], taken: Sequence[Taken], rows: Sequence[Ints]) -> Fed:
        """What each lane, which is of a source, has given for some of its rows."""
        stretches = [each for lane in taken for each in lane.stretches]
        counts = [len(own) for own in rows]
        return cls(
            stretches,
            np.array([sources, counts], np.int64),
            np.concatenate([_NONE, *rows]),
            np.concatenate([_NOTHING_TOLD, *(each.told for each in stretches)]),
            [block for lane in taken for block in lane.arrived],
        )

    @property
    def sources(self) -> Ints:
        """The source of each row."""
        return np.repeat(*self.lanes)

    def places_after(self, steps: int, before: Ints) -> Ints:
        """The places of all lanes after each step, (steps, rows, 3 x streams); one that gave nothing stays."""
        from gristmill.streams.row_kernels import follow_places  # which imports Numba

        after = np.empty((steps, *before.shape), np.int64)
        follow_places(self.lanes, self.rows, self.told, np.ascontiguousarray(before), after)
        return after


class Stack(NamedTuple):
    """The batches of a few steps: arrays of (steps, rows, columns), and a tally each."""

    arrays: Batch
    tallies: list[Tally]


class Assembly:
    """Arrays of what lanes give: `lanes` rows a step, of `seq_len` tokens or as wide as the longest of a step."""

    def __init__(
        self, filler: Filler, lanes: int, seq_len: int, multiple: int | None, augmented: AugmentedRows | None = None
    ) -> None:
        self._augmented = augmented
        self._filler, self._lanes, self._seq_len, self._multiple = filler, lanes, seq_len, multiple
        room = _STACK_BYTES // (filler.bytes_per_row(seq_len) * lanes)
        self._most = 1 if multiple is not None else max(room, 1)

    def stacks(self, fed: Fed, steps: int, least: Ints | None = None) -> Iterator[Stack]:
        """The rows of all lanes, step by step; those that no lane gives are padding.

        least: columns that each step must have, where rows are padded to the longest and not all are of lanes.
        """
        blocks = [block for each in fed.stretches for block in each.blocks]
        starts = np.cumsum([0, *(len(block.tokens) for block in blocks)], dtype=np.int64)
        pieces, edges = _pieces(fed, starts, steps * self._lanes)
        sample_ids = np.full((steps, self._lanes, 3), -1, np.int64)
        sample_ids.reshape(-1, 3)[fed.rows] = np.column_stack([fed.sources, fed.told[:, 3:]])
        plain = _NEED_DOCUMENTS.isdisjoint(self._filler.keys)
        documents = NO_DOCUMENTS if plain else _document_columns(blocks, starts)
        shards = _shard_columns(blocks, starts)
        keys = self._augmented.keys(fed, steps * self._lanes) if self._augmented else None
        counted = _counted(pieces, edges[:: self._lanes])
        for first in range(0, steps, self._most):
            count = min(self._most, steps - first)
            here = slice(first * self._lanes, (first + count) * self._lanes)
            own = edges[here.start : here.stop + 1]
            width = max(self._width(pieces, own), 0 if least is None else int(least[first]))
            flat, merged = self._filler.fill(shards, documents, pieces, own, self._seq_len, width)
            if self._augmented and keys is not None:
                self._augmented.apply(flat, pieces, own, sample_ids.reshape(-1, 3)[here], keys[here])
            arrays = {key: array.reshape(count, self._lanes, -1) for key, array in flat.items()}
            arrays["sample_ids"] = sample_ids[first : first + count]
            yield Stack(arrays, _tallies(counted[:, first : first + count], self._lanes * width, merged))

    def _width(self, pieces: Pieces, edges: Ints) -> int:
        if self._multiple is None:
            return self._seq_len
        longest = int(pieces.lengths[edges[0] : edges[-1]].max(initial=1))
        return min(-(-longest // self._multiple) * self._multiple, self._seq_len)


def _pieces(fed: Fed, starts: Ints, count: int) -> tuple[Pieces, Ints]:
    """The pieces of all lanes in the order of rows, and the first of each of `count` rows."""
    from gristmill.streams.row_kernels import order_pieces  # which imports Numba

    sizes = np.array([each.stop - each.first for each in fed.stretches], np.int64)
    firsts = np.cumsum([0, *(len(each.blocks) for each in fed.stretches)], dtype=np.int64)[:-1]
    edges = [each.rows.edges[each.first : each.stop + 1] for each in fed.stretches]
    parts = (_NO_PIECES, *(each.rows.part(each.first, each.stop) for each in fed.stretches))
    given = [np.concatenate(column) for column in zip(*parts, strict=True)]
    made = [np.empty_like(given[i]) for i in (0, 0, 0, 1, 2, 3)]
    begins = np.empty(count + 1, np.int64)
    order_pieces(sizes, starts[firsts], fed.rows, np.concatenate([_NONE, *edges]), *given, begins, *made)
    return Pieces(*made), begins


def _shard_columns(blocks: list[Block], starts: Ints) -> ShardColumns:
    """A shard table of the blocks' own memory."""
    addresses = np.array([block.address for block in blocks], np.int64)
    itemsizes = np.array([block.tokens.itemsize for block in blocks], np.int64)
    return starts, addresses, np.zeros(len(blocks), np.int64), itemsizes


def _document_columns(blocks: list[Block], starts: Ints) -> DocumentColumns:
    """A document table of the blocks' own memory."""
    itemsizes = np.array([block.tokens.itemsize for block in blocks], np.int64)
    counts = np.cumsum([0, *(len(block.pointers) for block in blocks)], dtype=np.int64)
    addresses = np.array([block.pointers.ctypes.data for block in blocks], np.int64)
    nothing = np.zeros(len(blocks), np.int64)
    return starts, itemsizes, counts, addresses, nothing, nothing


def _counted(pieces: Pieces, edges: Ints) -> Ints:
    """Of each step, whose pieces begin at `edges`, the tokens that pieces hold and those that they leave out."""
    sums = np.zeros((2, len(pieces.lengths) + 1), np.int64)
    np.cumsum((pieces.lengths, pieces.truncated), axis=1, out=sums[:, 1:])
    return np.diff(sums[:, edges])


def _tallies(counted: Ints, tokens: int, merged: Ints) -> list[Tally]:
    """For each step what is counted of its `tokens`."""
    steps = counted.shape[1]
    lost = merged.reshape(steps, -1).sum(axis=1).tolist() if len(merged) else [0] * steps
    return [Tally(tokens, tokens - k, t, m) for k, t, m in zip(*counted.tolist(), lost, strict=True)]
