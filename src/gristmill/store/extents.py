"""What compiled loops read of shards that are not mapped as they are: the frames that a group touches, as shards.

A loop over a shard table does not care whether a shard is a mapped file or a frame in memory, decompressed or fetched.
So the table of a group is made of *extents*: each frame of a compressed or fetched shard is one, and so is a whole
mapped shard. Those that are touched stand in order; between them are gaps with address 0, which nothing reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.frames import Frames

if TYPE_CHECKING:
    from gristmill.store.table import ShardColumns, ShardTable


class Extents:
    """The shards of a table, the `framed` ones among them cut into frames."""

    def __init__(self, table: ShardTable) -> None:
        self._table = table
        tokens = np.diff(table.starts)
        self._lengths = np.where(table.framed, FRAME_TOKENS, np.maximum(tokens, 1))
        counts = -(-tokens // self._lengths)
        self._firsts = np.append(0, np.cumsum(counts))
        self.frames = Frames(table)

    @contextlib.contextmanager
    def leased(self, positions: Ints, lengths: Ints) -> Iterator[ShardColumns]:
        """The shard table of the pieces [positions, + lengths), whose shards must be mapped where they can."""
        table = self._table
        extents = _distinct(self._holding(positions), self._holding(positions + np.maximum(lengths, 1) - 1))
        shards = np.searchsorted(self._firsts, extents, side="right") - 1
        places = extents - self._firsts[shards]
        starts = table.starts[shards] + places * self._lengths[shards]
        ends = np.minimum(starts + self._lengths[shards], table.starts[shards + 1])
        framed, addresses = table.framed[shards], table.bins.addresses[shards] + table.headers[shards]
        with self.frames.leased(shards[framed], places[framed]) as found:
            addresses[framed] = found
            headers = np.zeros(2 * len(extents), dtype=np.int64)
            itemsizes = np.repeat(table.itemsizes[shards], 2)
            yield _interleaved(starts, ends), _interleaved(addresses, headers[::2]), headers, itemsizes

    def _holding(self, positions: Ints) -> Ints:
        """The extent of each position."""
        shards = np.searchsorted(self._table.starts, positions, side="right") - 1
        inside = positions - self._table.starts[shards]
        extents: Ints = self._firsts[shards] + inside // self._lengths[shards]
        return extents


def _distinct(first: Ints, last: Ints) -> Ints:
    """All numbers of the ranges first[i] to last[i], both included, once and in rising order."""
    counts = last - first + 1
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.unique(np.repeat(first, counts) + within)


def _interleaved(even: Ints, odd: Ints) -> Ints:
    return np.stack([even, odd], axis=1).ravel()
