"""Asking the disk beforehand: the future is known, so a batch's pages can be requested all at once.

A page fault on a mapped file waits for the disk, one page after another, and by default reads megabytes around each.
Token maps are therefore marked as random, and where pages turn out not to be in memory the kernel is told of every
piece of a group before the first is touched: the disk sees hundreds of requests instead of one. Telling it costs about
1.5 microseconds a piece, which would halve the speed from memory: so it is done only while faults are seen.
"""

from __future__ import annotations

import mmap
import resource

from gristmill.loader.pieces import Pieces
from gristmill.store.maps import advise
from gristmill.store.table import Table

# After a fault, this many groups are announced without looking: announced groups have no faults to be seen.
_STAY_COLD = 64


class Foresight:
    """Announces the pieces of coming batches for as long as they have to be fetched from the disk."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._announce = 1

    def announce(self, pieces: Pieces) -> int:
        """Tell the kernel what is needed next, if that has been of use; returns what `look_back` must be given."""
        if self._announce > 0:
            self._announce -= 1
            addresses, sizes = self._table.addresses_of(pieces.positions, pieces.lengths)
            for address, size in zip(addresses.tolist(), sizes.tolist(), strict=True):
                advise(address, size, mmap.MADV_WILLNEED)
        return _faults()

    def look_back(self, before: int) -> None:
        """Note whether this thread had to wait for pages since `announce`."""
        if _faults() > before:
            self._announce = _STAY_COLD


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
