"""Which blocks of tokens have been found whole: each is checked by its sum in `.blocks` when it is first touched.

A block is 16 KiB, one bit here (a trillion tokens of uint16 are 16 MB of bits, most of them never written). A first
touch costs about 2 microseconds a block from memory, and from a disk hardly more than the page that is wanted anyway;
after that a group of batches is looked up in one compiled pass. Foreign files have no sums, compressed ones those of
their frames: both are left alone.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.core.errors import StoreError
from gristmill.core.locks import Lock
from gristmill.store.blocks import BLOCK, BLOCKS_SUFFIX, check_blocks, read_head
from gristmill.store.files import Ints
from gristmill.store.idx import Bytes
from gristmill.store.maps import Maps, advise, resident, view

if TYPE_CHECKING:
    from gristmill.store.table import Table

# A map of 100 KB a shard of 100 million tokens; one that is made again costs 50 microseconds.
_MAX_MAPS = 4096
_LOOK_AT = 16


class Trust:
    """The blocks of a table's plain shards that have sums. Safe to call from many threads."""

    def __init__(self, table: Table, summed: npt.NDArray[np.bool_]) -> None:
        """`summed` says which shards have sums; the tokens of any other are one block that is never checked."""
        self._table = table
        tokens = np.diff(table.starts)
        self._shifts = np.where(summed, np.log2(BLOCK // table.itemsizes).astype(np.int64), 62)
        counts = np.where(summed, -(-tokens // (BLOCK // table.itemsizes)), 1)
        self._firsts = np.append(0, np.cumsum(counts))
        self._bits = np.zeros(int(self._firsts[-1]) // 8 + 1, dtype=np.uint8)
        self._lock = Lock()
        self._mark(self._firsts[:-1][~summed])
        self._sums = Maps(len(tokens), self._path, lambda shard: None, _MAX_MAPS, check=self._check_sums)

    def _path(self, shard: int) -> str:
        return self._table.sibling(shard, BLOCKS_SUFFIX)

    def _check_sums(self, shard: int, data: Bytes) -> None:
        check_blocks(data, self._table.blocks_checksum(shard), self._path(shard))

    def check(self, positions: Ints, lengths: Ints) -> None:
        """Check what the pieces [positions, + lengths) touch for the first time; their shards must be mapped."""
        from gristmill.store.kernels import untrusted_blocks

        pieces = (self._table.starts, self._firsts, self._shifts, self._bits, positions, lengths)
        none = np.empty(0, dtype=np.int64)
        if not untrusted_blocks(*pieces, none):
            return
        with self._lock:  # no bit may change between counting and writing down
            blocks = np.empty(untrusted_blocks(*pieces, none), dtype=np.int64)
            untrusted_blocks(*pieces, blocks)
        blocks = np.unique(blocks)
        self._check_blocks(blocks)
        self._mark(blocks)

    def _check_blocks(self, blocks: Ints) -> None:
        """Compare the sums of blocks; where some are not in memory, all are asked for before the first is read."""
        table = self._table
        shards = np.searchsorted(self._firsts, blocks, side="right") - 1
        places = blocks - self._firsts[shards]
        sizes = (table.starts[shards + 1] - table.starts[shards]) * table.itemsizes[shards]
        lengths = np.minimum(sizes - places * BLOCK, BLOCK)
        addresses = table.bins.addresses[shards] + places * BLOCK
        if not all(resident(address) for address in addresses[:: max(len(addresses) // _LOOK_AT, 1)].tolist()):
            for address, length in zip(addresses.tolist(), lengths.tolist(), strict=True):
                advise(address, length, mmap.MADV_WILLNEED)
        with self._sums.leased(shards):
            for shard in np.unique(shards).tolist():
                here = shards == shard
                rows = zip(places[here].tolist(), addresses[here].tolist(), lengths[here].tolist(), strict=True)
                self._compare(shard, list(rows))

    def _compare(self, shard: int, rows: list[tuple[int, int, int]]) -> None:
        """Refuse a block of a shard, given as (number, address, bytes), whose sum differs."""
        data = self._sums.bytes_of(shard)
        sums = data[read_head(data, self._table.blocks_checksum(shard), self._path(shard)).tokens_at :].view("<u8")
        for place, address, length in rows:
            if xxhash.xxh3_64_intdigest(view(address, "u1", length).data) != int(sums[place]):
                raise StoreError(
                    f"Shard {self._table.bins.path(shard)} is damaged: its block {place:,} of {BLOCK:,} bytes does not "
                    "have the sum that it had; restore it or make the store again."
                )

    def _mark(self, blocks: Ints) -> None:
        with self._lock:
            np.bitwise_or.at(self._bits, blocks >> 3, np.left_shift(1, blocks & 7).astype(np.uint8))
