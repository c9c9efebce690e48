"""Which parts of shards are fetched, held and evicted as one: *extents*, laid out by arithmetic alone.

A grid cuts each shard into extents of `lengths[i]` tokens, the first of which is `shifts[i]` shorter: so the extents of
a shard can be the blocks of a plan, which run through the whole stream and do not begin where a shard does.

    stream   |   block 0   |   block 1   |   block 2   |
    shards   |      shard 0      |      shard 1        |
    extents  |      0      |  1  |   0   |      1      |     shard 1 has shift 6 of 13

The bytes of an extent are rounded outwards to the blocks that `.blocks` has sums of, so that they can be checked as
they come, and hold the token after its last one, which is a label. Frames of compressed shards are extents too, but
where their bytes lie is known to the seek table of their file alone; a shard that can be mapped is one extent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gristmill.core.arrays import Ints, Mask
from gristmill.store.blocks import BLOCK
from gristmill.store.format import FRAME_TOKENS

# What is asked for in one request at most, if it is more than one extent.
MOST_BYTES = 1 << 20


class Extent(NamedTuple):
    """An extent by the number of its shard and its own number there."""

    shard: int
    place: int


@dataclass(frozen=True, eq=False)
class Grid:
    """Shard i holds tokens [starts[i], starts[i + 1]) of a row of shards, `itemsizes[i]` bytes each, in extents.

    rounded[i]: its extents are rounded outwards and hold the token after their last one.
    """

    starts: Ints
    itemsizes: Ints
    lengths: Ints
    shifts: Ints
    rounded: Mask
    firsts: Ints

    def touched(self, positions: Ints, lengths: Ints) -> Ints:
        """The extents that pieces [positions, + lengths) need, each once, in rising order, counted through shards."""
        return distinct(*self.needed(positions, lengths))

    def in_order_of_use(self, positions: Ints, lengths: Ints) -> Ints:
        """The same in the order in which the pieces first need them."""
        return first_uses(*self.needed(positions, lengths))[0]

    def numbers(self, positions: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        """Piece and extent of all extents that each piece needs, piece by piece, counted through all shards."""
        first, last = self.needed(positions, lengths)
        return _owners(first, last), _ranges(first, last)

    def placed(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Shard and place of extents that are counted through all shards."""
        shards = np.searchsorted(self.firsts, numbers, side="right") - 1
        return shards, numbers - self.firsts[shards]

    def needed(self, positions: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        """The first and the last extent of each piece; one that holds all but the last token of a piece holds all."""
        last = positions + np.maximum(lengths, 1) - 1
        first_shards = last_shards = np.searchsorted(self.starts, positions, side="right") - 1
        if (last >= self.starts[first_shards + 1]).any():  # which few groups of samples have
            last_shards = np.searchsorted(self.starts, last, side="right") - 1
        spared = self.rounded[last_shards] & (last > np.maximum(positions, self.starts[last_shards]))
        return self._numbers(first_shards, positions), self._numbers(last_shards, last - spared)

    def _numbers(self, shards: Ints, positions: Ints) -> Ints:
        """The extents of positions, counted through all shards."""
        inside = positions - self.starts[shards] + self.shifts[shards]
        numbers: Ints = self.firsts[shards] + inside // self.lengths[shards]
        return numbers

    def tokens(self, shards: Ints, places: Ints) -> tuple[Ints, Ints]:
        """The tokens [first, end) of extents, counted inside their shards."""
        first = places * self.lengths[shards] - self.shifts[shards]
        return np.maximum(first, 0), np.minimum(first + self.lengths[shards], self._tokens(shards))

    def held(self, shards: Ints, places: Ints) -> tuple[Ints, Ints]:
        """The tokens [first, end) that the bytes of extents hold; those of a frame are its own."""
        first, end = self.tokens(shards, places)
        block, rounded = BLOCK // self.itemsizes[shards], self.rounded[shards]
        outer = np.minimum(-(-(end + 1) // block) * block, self._tokens(shards))
        return np.where(rounded, first // block * block, first), np.where(rounded, outer, end)

    def byte_ranges(self, shards: Ints, places: Ints) -> tuple[Ints, Ints]:
        """The bytes [start, end) of extents, counted from the first token of their shards, before compression."""
        first, end = self.held(shards, places)
        return first * self.itemsizes[shards], end * self.itemsizes[shards]

    def most_bytes(self, shards: Mask) -> int:
        """What no extent of the marked shards exceeds, and one that is not cut short nearly has."""
        most = self.lengths * self.itemsizes + np.where(self.rounded, 2 * BLOCK, 0)
        return int(most[shards].max(initial=1))

    def _tokens(self, shards: Ints) -> Ints:
        tokens: Ints = self.starts[shards + 1] - self.starts[shards]
        return tokens


def make_grid(
    starts: Ints, itemsizes: Ints, firsts: Ints, *, fetched: Mask, compressed: Mask, tokens: tuple[int, ...]
) -> Grid:
    """The grid of stores, the shards of store k being [firsts[k], firsts[k + 1]): its extents have tokens[k] tokens.

    Without `tokens` those of plain shards are as long as frames. What is neither fetched nor compressed is not cut.
    """
    counts, own = np.diff(starts), np.diff(firsts)
    lengths = np.repeat(np.array(tokens or [FRAME_TOKENS] * len(own), dtype=np.int64), own)
    shifts = (starts[:-1] - np.repeat(starts[firsts[:-1]], own)) % lengths
    rounded = fetched & ~compressed
    lengths = np.where(rounded, lengths, np.where(compressed, FRAME_TOKENS, np.maximum(counts, 1)))
    shifts = np.where(rounded, shifts, 0)
    extents = np.where(counts > 0, -(-(counts + shifts) // lengths), 0)
    return Grid(starts, itemsizes, lengths, shifts, rounded, np.append(0, np.cumsum(extents)))


def runs(shards: Ints, starts: Ints, ends: Ints, most: int = MOST_BYTES) -> list[slice]:
    """Ranges as requests: slices of those that go on where the last one ended or overlaps, of `most` bytes in all."""
    found: list[slice] = []
    shards, starts, ends = shards.tolist(), starts.tolist(), ends.tolist()
    for i in range(len(shards)):
        last = i - 1
        goes_on = i > 0 and shards[i] == shards[last] and starts[last] <= starts[i] <= ends[last] <= ends[i]
        if goes_on and ends[i] - starts[found[-1].start] <= most:
            found[-1] = slice(found[-1].start, i + 1)
        else:
            found.append(slice(i, i + 1))
    return found


def _ranges(first: Ints, last: Ints) -> Ints:
    """All numbers of the ranges first[i] to last[i], both included."""
    counts = last - first + 1
    if counts.sum() == len(first):  # one each, as nearly all pieces have
        return first
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers: Ints = np.repeat(first, counts) + within
    return numbers


def _owners(first: Ints, last: Ints) -> Ints:
    """Of all these numbers, which range each is of."""
    return np.repeat(np.arange(len(first)), last - first + 1)


def first_uses(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """The extents first[i] to last[i] of pieces, each once, in the order of first use, and the piece that uses it."""
    numbers = _ranges(first, last)
    uses = np.sort(np.unique(numbers, return_index=True)[1])
    return numbers[uses], _owners(first, last)[uses]


def distinct(first: Ints, last: Ints) -> Ints:
    """The same in rising order."""
    numbers = np.sort(_ranges(first, last))
    return numbers[np.diff(numbers, prepend=-1) > 0]  # np.unique takes three times as long
