"""A lane: the rows that one row of all batches is fed, and its place. A class for each way to cut documents.

    chunk    rows are stretches of one endless text, which goes on from block to block
    pack     whole documents side by side, best-fit inside of a block
    pad      a document a row, cut off or padded

A place is (turn, block, at): the token of the block at which the next row begins under `chunk`, else the number of that
row in the block. Whoever has it can make the block again and go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.streams.blocks import Block
from gristmill.streams.rows import Rows, Table, packed, padded


class Taken(NamedTuple):
    """Rows of a lane, and the blocks that they lie in, end to end: positions count from the first of them on.

    `places` are the lane's places after each row, `origins` the epoch and the unit of each, `arrived` the blocks that
    have come for them, those without tokens too.
    """

    rows: Rows
    blocks: list[Block]
    places: Ints
    origins: Ints
    arrived: list[Block]


_NONE = np.empty(0, np.int64)
NOTHING = Taken(
    Rows(np.zeros(1, np.int64), _NONE, _NONE, np.empty(0, np.bool_), _NONE),
    [],
    np.empty((0, 3), np.int64),
    np.empty((0, 2), np.int64),
    [],
)


class Lane(ABC):
    """The rows of one lane from place `at` of the first of `blocks` on."""

    name: ClassVar[str]
    # How rows are made of a block's documents, where each row is of one block: alone, since it is no method.
    table: ClassVar[tuple[Table] | None] = None

    def __init__(self, blocks: Iterator[Block], at: int, seq_len: int) -> None:
        self._blocks, self._at, self._seq_len = blocks, at, seq_len
        self._held: list[Block] = []
        self._arrived: list[Block] = []

    def _more(self) -> bool:
        """Hold one more block with tokens; False at the end of the stream."""
        for block in self._blocks:
            self._arrived.append(block)
            if len(block.tokens):
                self._held.append(block)
                return True
        return False

    def _taken(self, rows: Rows, blocks: list[Block], places: Ints, origins: Ints) -> Taken:
        arrived, self._arrived = self._arrived, []
        return Taken(rows, blocks, places, origins, arrived)

    @abstractmethod
    def take(self, count: int) -> Taken:
        """The next rows, `count` of them unless the stream ends before; for none, nothing is read."""


class Chunk(Lane):
    """Stretches of `seq_len` tokens; the last of a stream that ends may be shorter."""

    name = "chunk"

    def take(self, count: int) -> Taken:
        if not count:
            return NOTHING
        wanted = self._at + count * self._seq_len + 1  # the token after the last row is its last label
        while sum(len(block.tokens) for block in self._held) < wanted and self._more():
            pass
        blocks = list(self._held)
        ends = np.cumsum([len(block.tokens) for block in blocks], dtype=np.int64)
        total = int(ends[-1]) if blocks else 0
        rows = min(count, max(-(-(total - self._at) // self._seq_len), 0))
        positions = self._at + np.arange(rows) * self._seq_len
        after = np.minimum(positions + self._seq_len, total)
        which = np.minimum(np.searchsorted(ends, after, side="right"), len(blocks) - 1)
        starts, ids = np.append(0, ends[:-1]), np.array([(b.turn, b.number, b.epoch, b.unit) for b in blocks], np.int64)
        ids = ids.reshape(-1, 4)
        places = np.column_stack([ids[which, :2], after - starts[which]])
        origins = ids[np.searchsorted(ends, positions, side="right"), 2:]
        if rows:
            self._held, self._at = blocks[which[-1] :], int(places[-1, 2])
        nothing = np.zeros(rows, np.int64)
        made = Rows(np.arange(rows + 1), positions, after - positions, after < total, nothing)
        return self._taken(made, blocks, places, origins)


class _OfBlocks(Lane):
    """Rows that are each of one block."""

    def take(self, count: int) -> Taken:
        parts: list[tuple[Block, int, Rows]] = []
        while count and (self._held or self._more()):
            block = self._held[0]
            assert block.rows is not None
            stop = min(self._at + count, len(block.rows))
            if self._at < stop:
                parts.append((block, self._at, block.rows.part(self._at, stop)))
                count -= stop - self._at
            self._at = stop
            if stop == len(block.rows):
                self._held, self._at = [], 0
        return self._taken(_joined(parts), [block for block, _, _ in parts], *_told(parts))


class Pack(_OfBlocks):
    """Whole documents side by side; what is longer than a row is cut into windows."""

    name, table = "pack", (packed,)


class Pad(_OfBlocks):
    """A document a row."""

    name, table = "pad", (padded,)


def _told(parts: list[tuple[Block, int, Rows]]) -> tuple[Ints, Ints]:
    """The places after rows, and their origins."""
    total, at = sum(len(rows) for _, _, rows in parts), 0
    places, origins = np.empty((total, 3), np.int64), np.empty((total, 2), np.int64)
    for block, first, rows in parts:
        here = slice(at, at := at + len(rows))
        places[here, 0], places[here, 1], places[here, 2] = block.turn, block.number, first + 1 + np.arange(len(rows))
        origins[here] = block.epoch, block.unit
    return places, origins


def _joined(parts: list[tuple[Block, int, Rows]]) -> Rows:
    """Rows of several blocks, whose tokens lie end to end."""
    if len(parts) == 1:
        return parts[0][2]
    sizes = np.cumsum([0, *(len(block.tokens) for block, _, _ in parts)])
    counts = np.cumsum([0, *(len(rows.lengths) for _, _, rows in parts)])
    edges = [rows.edges[:-1] + count for count, (_, _, rows) in zip(counts[:-1], parts, strict=True)]
    columns = [(rows.positions + size, *rows[2:]) for size, (_, _, rows) in zip(sizes[:-1], parts, strict=True)]
    none = np.empty(0, np.int64)
    joined = [np.concatenate([none.astype(kind), *column]) for kind, column in
              zip((np.int64, np.int64, np.bool_, np.int64), zip(*columns, strict=True) if columns else [()] * 4,
                  strict=True)]  # fmt: skip
    return Rows(np.concatenate([none, *edges, [counts[-1]]]), *joined)


CUTS: dict[str, type[Lane]] = {cut.name: cut for cut in (Chunk, Pack, Pad)}
