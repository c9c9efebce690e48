"""Asking the disk beforehand: the future is known, so the pages of coming batches can be requested all at once.

A page fault on a mapped file waits for the disk, one page after another, and by default reads megabytes around each.
Token maps are therefore marked as random, and where pages turn out not to be in memory the kernel is told of every
piece of a group before the first is touched: the disk sees hundreds of requests instead of one. Telling it costs about
2 microseconds a piece, more than the piece itself costs from memory, so a few pieces are looked at first.
"""

from __future__ import annotations

import mmap
import resource
from typing import TYPE_CHECKING

from gristmill.core.arrays import Ints
from gristmill.places.memory import advise, resident

if TYPE_CHECKING:
    from gristmill.store.table import ShardTable

_LOOK_AT = 16


class Foresight:
    """Announces pieces of mapped shards if some of them would have to be fetched from the disk."""

    def __init__(self, table: ShardTable) -> None:
        self._table = table
        self._faults = 0

    def announce(self, positions: Ints, lengths: Ints) -> None:
        """Tell the kernel what is needed next, if a sample of it is not in memory or pages were missing just before.

        The second sign is for files of other users, of which the kernel does not tell what is in memory.
        """
        few = slice(None, None, max(len(positions) // _LOOK_AT, 1))
        sample, _ = self._table.addresses_of(positions[few], lengths[few])
        faults, self._faults = self._faults, resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        if self._faults == faults and all(map(resident, sample.tolist())):
            return
        addresses, sizes = self._table.addresses_of(positions, lengths)
        for address, size in zip(addresses.tolist(), sizes.tolist(), strict=True):
            advise(address, size, mmap.MADV_WILLNEED)
