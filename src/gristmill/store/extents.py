"""What compiled loops read of shards that are not mapped as they are: the extents that a group touches, as shards.

A loop over a shard table does not care whether a shard is a mapped file or a part of one in memory, decompressed or
fetched. So the table of a group is made of extents (see `grid.py`). Those that are touched stand in order; between them
are gaps with address 0, which nothing reads. Where one holds tokens of the next, it ends where that begins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.store.frames import Frames

if TYPE_CHECKING:
    from gristmill.store.table import ShardColumns, ShardTable


class Extents:
    """The shards of a table, the `framed` ones among them by the extents of its grid."""

    def __init__(self, table: ShardTable) -> None:
        self._table = table
        self.frames = Frames(table)

    @contextlib.contextmanager
    def leased(self, numbers: Ints) -> Iterator[ShardColumns]:
        """The shard table of distinct extents, in rising order, whose shards must be mapped where they can."""
        table, grid = self._table, self._table.grid
        shards, places = grid.placed(numbers)
        (first, _), (held, end) = grid.tokens(shards, places), grid.held(shards, places)
        starts, itemsizes = table.starts[shards] + first, table.itemsizes[shards]
        ends = np.minimum(table.starts[shards] + end, np.append(starts[1:], table.starts[-1]))
        framed, addresses = table.framed[shards], table.bins.addresses[shards] + table.headers[shards]
        with self.frames.leased(numbers[framed]) as found:
            addresses[framed] = found + ((first - held) * itemsizes)[framed]
            none = np.zeros(2 * len(shards), dtype=np.int64)
            yield _interleaved(starts, ends), _interleaved(addresses, none[::2]), none, np.repeat(itemsizes, 2)


def _interleaved(even: Ints, odd: Ints) -> Ints:
    return np.stack([even, odd], axis=1).ravel()
