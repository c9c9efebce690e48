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


class Stretch(NamedTuple):
    """Rows [first, stop) of a table, and the blocks that they lie in, end to end: positions count from the first on.

    `told` are, of each of them, the lane's place after it (turn, block, at), its epoch and its unit.
    """

    blocks: list[Block]
    rows: Rows
    first: int
    stop: int
    told: Ints


class Taken(NamedTuple):
    """Rows of a lane, the blocks that have come for them, those without tokens too, and how many rows there are."""

    stretches: list[Stretch]
    arrived: list[Block]
    given: int


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

    def _taken(self, stretches: list[Stretch], given: int) -> Taken:
        arrived, self._arrived = self._arrived, []
        return Taken(stretches, arrived, given)

    @abstractmethod
    def take(self, count: int) -> Taken:
        """The next rows, `count` of them unless the stream ends before; for none, nothing is read."""


class Chunk(Lane):
    """Stretches of `seq_len` tokens; the last of a stream that ends may be shorter."""

    name = "chunk"

    def take(self, count: int) -> Taken:
        if not count:
            return Taken([], [], 0)
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
        told = np.column_stack(
            [ids[which, :2], after - starts[which], ids[np.searchsorted(ends, positions, "right"), 2:]]
        )
        if not rows:
            return self._taken([], 0)
        self._held, self._at = blocks[which[-1] :], int(told[-1, 2])
        nothing = np.zeros(rows, np.int64)
        made = Rows(np.arange(rows + 1), positions, after - positions, after < total, nothing)
        return self._taken([Stretch(blocks, made, 0, rows, told)], rows)


class _OfBlocks(Lane):
    """Rows that are each of one block."""

    def take(self, count: int) -> Taken:
        found, left = list[Stretch](), count
        while left and (self._held or self._more()):
            block, first = self._held[0], self._at
            assert block.rows is not None
            rows = len(block.rows)
            stop = min(first + left, rows)
            if first < stop:
                found.append(Stretch([block], block.rows, first, stop, block.told[first:stop]))
                left -= stop - first
            self._at = stop
            if stop == rows:
                self._held, self._at = [], 0
        return self._taken(found, count - left)


class Pack(_OfBlocks):
    """Whole documents side by side; what is longer than a row is cut into windows."""

    name, table = "pack", (packed,)


class Pad(_OfBlocks):
    """A document a row."""

    name, table = "pad", (padded,)


CUTS: dict[str, type[Lane]] = {cut.name: cut for cut in (Chunk, Pack, Pad)}
