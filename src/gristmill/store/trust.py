"""Which blocks of tokens have been found whole: each is checked by its sum in `.blocks` when it is first touched.

A block is 4 KiB, one bit here (a trillion tokens of uint16 are 61 MB of bits, which take up no memory before they are
written). A first touch costs about 0.6 microseconds a block from memory, and reads no page of the tokens that is not
wanted anyway; after that a group of batches is looked up in one compiled pass. What is fetched is checked as it comes,
each time. Foreign files have no sums, compressed ones those of their frames: both are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xxhash

from gristmill.core.arrays import Bytes, Ints, Mask
from gristmill.core.errors import StoreError
from gristmill.core.locks import Lock
from gristmill.places.memory import view
from gristmill.store.blocks import BLOCK, BLOCKS_SUFFIX, check_blocks
from gristmill.store.maps import MAX_COPIES, Maps

if TYPE_CHECKING:
    from gristmill.store.table import ShardTable

# A map of 400 KB a shard of 100 million tokens; one that is made again costs 50 microseconds.
_MAX_MAPS = 4096


class Trust:
    """The blocks of a table's plain shards that have sums. Safe to call from many threads."""

    def __init__(self, table: ShardTable, summed: Mask) -> None:
        """`summed` says which shards have sums; the tokens of any other are one block that is never checked."""
        self._table, self._summed = table, summed
        summed = summed & ~table.bins.fetched
        self._checks = bool(summed.any())
        tokens = np.diff(table.starts)
        self._shifts = np.where(summed, np.log2(BLOCK // table.itemsizes).astype(np.int64), 62)
        counts = np.where(summed, -(-tokens // (BLOCK // table.itemsizes)), 1)
        self._firsts = np.append(0, np.cumsum(counts))
        self._bits = np.zeros(int(self._firsts[-1]) // 8 + 1, dtype=np.uint8)
        self._sums_at = np.zeros(len(tokens), dtype=np.int64)
        self._lock = Lock()
        self._mark(self._firsts[:-1][~summed])
        bound = MAX_COPIES if table.bins.fetched.any() else _MAX_MAPS
        self._sums = Maps(len(tokens), self._path, lambda shard: None, bound, check=self._check_sums)

    def _path(self, shard: int) -> str:
        store, local = self._table.shard(shard)
        return store.files.sibling(local, BLOCKS_SUFFIX)

    def _check_sums(self, shard: int, data: Bytes) -> None:
        """Refuse what may not be trusted; note where the sums of a good file begin."""
        store, local = self._table.shard(shard)
        sums = check_blocks(data, store.files.blocks_checksum(local), self._path(shard))
        if len(sums) != -(-self._table.sizes[shard] // BLOCK):
            raise StoreError(f"{self._path(shard)} does not hold the sums of its tokens: restore it.")
        self._sums_at[shard] = len(data) - sums.nbytes

    def check(self, positions: Ints, lengths: Ints) -> None:
        """Check what the pieces [positions, + lengths) touch for the first time; their shards must be mapped."""
        if not self._checks:
            return
        from gristmill.store.kernels import untrusted_blocks

        pieces = (self._table.starts, self._firsts, self._shifts, self._bits, positions, lengths)
        count = untrusted_blocks(*pieces, np.empty(0, dtype=np.int64))
        if not count:
            return
        blocks = np.empty(count, dtype=np.int64)
        blocks = blocks[: untrusted_blocks(*pieces, blocks)]  # fewer, if another thread has found some whole meanwhile
        blocks.sort()
        blocks = blocks[np.diff(blocks, prepend=-1) > 0]  # np.unique takes ten times as long
        self._check_blocks(blocks)
        self._mark(blocks)

    def knows(self, shard: int) -> bool:
        """Whether a shard's blocks have sums."""
        return bool(self._summed[shard])

    def check_fetched(self, shard: int, at: int, data: Bytes, to: Bytes | None) -> None:
        """Check bytes of a shard, from its byte `at` on, that have just come: whole blocks, or its end; copy them."""
        first, address = at // BLOCK, data.ctypes.data
        with self._sums.leased(np.array([shard])) as sums:
            sums_at = int(sums[shard] + self._sums_at[shard]) + 8 * first
            damaged = _first_damaged_block(address, len(data), sums_at, 0 if to is None else to.ctypes.data)
        if damaged >= 0:
            raise self._damage(shard, first + damaged)

    def _check_blocks(self, blocks: Ints) -> None:
        """Compare the sums of blocks of mapped shards."""
        shards = np.searchsorted(self._firsts, blocks, side="right") - 1
        places = blocks - self._firsts[shards]
        addresses = self._table.bins.addresses[shards] + places * BLOCK
        lengths = np.minimum(self._table.sizes[shards] - places * BLOCK, BLOCK)
        with self._sums.leased(shards) as sums:
            damaged = _first_damaged(addresses, lengths, sums[shards] + self._sums_at[shards] + 8 * places)
        if damaged >= 0:
            raise self._damage(int(shards[damaged]), int(places[damaged]))

    def _damage(self, shard: int, block: int) -> StoreError:
        return StoreError(
            f"Shard {self._table.bins.path(shard)} is damaged: its block {block:,} of {BLOCK:,} bytes does not have "
            "the sum that it had; restore it or make the store again."
        )

    def _mark(self, blocks: Ints) -> None:
        with self._lock:
            np.bitwise_or.at(self._bits, blocks >> 3, np.left_shift(1, blocks & 7).astype(np.uint8))


def _first_damaged(addresses: Ints, lengths: Ints, sums_at: Ints) -> int:
    """The first block whose sum is not the one at its address in `sums_at`; -1 if all are whole."""
    from gristmill.core.kernels.xxh3 import LONGEST_SHORT, first_other_sum

    found: int = first_other_sum(addresses, lengths, sums_at)
    if found >= 0:
        return found
    short = np.flatnonzero(lengths <= LONGEST_SHORT).tolist()  # last blocks of shards, and few of them
    return next((i for i in short if not _has_sum(int(addresses[i]), int(lengths[i]), int(sums_at[i]))), -1)


def _first_damaged_block(address: int, size: int, sums_at: int, to: int) -> int:
    """The first of consecutive blocks that does not have its sum, -1 if all have; they are copied `to` an address."""
    from gristmill.core.kernels.xxh3 import LONGEST_SHORT, first_other_block

    found: int = first_other_block(address, size, BLOCK, sums_at, to)
    last, short = divmod(size, BLOCK)
    if found < 0 and 0 < short <= LONGEST_SHORT:
        return -1 if _has_sum(address + last * BLOCK, short, sums_at + 8 * last) else last
    return found


def _has_sum(address: int, length: int, sum_at: int) -> bool:
    """Whether a short block has the sum at another address."""
    found = int(xxhash.xxh3_64_intdigest(view(address, "u1", length).data))
    return found.to_bytes(8, "little") == view(sum_at, "u1", 8).tobytes()
