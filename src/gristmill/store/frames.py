"""Extents of shards that are not mapped as they are, kept up to a bound: the longest unused go first, none in use.

An extent (see `grid.py`) is a frame of 65,536 tokens that is decompressed, or a part of a plain file that is fetched.
Random samples of 2,048 tokens hardly ever meet a frame twice, so that each costs a whole frame (0.17 ms to decompress):
the cache is for neighbours (labels across an edge, packed documents, a stream in order) and for orders that come back
to a block. The memory of frames is used again rather than given back, since a fresh page costs as much as decompressing
into it.
"""

from __future__ import annotations

import collections
import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.locks import Lock
from gristmill.places.memory import view
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.grid import Extent
from gristmill.store.seekable import decompress, frame_offsets
from gristmill.store.supply import Supply

if TYPE_CHECKING:
    from gristmill.store.table import ShardTable

CACHE_BYTES = 64 << 20


@dataclass(eq=False, slots=True)
class _Slot:
    """The memory of one extent and how many readers it has."""

    memory: Bytes
    address: int
    leases: int = 0


class Frames:
    """The extents of a table's framed shards. Safe to call from many threads.

    At most `limit` bytes are held, or what is leased at one time, if that is more. Two threads that miss one extent at
    the same time both bring it: waiting for each other would cost more than it saves, and could hang a fork.
    """

    def __init__(self, table: ShardTable, limit: int = CACHE_BYTES) -> None:
        self._table, self._limit = table, limit
        self._lock = Lock()
        self.supply = Supply(table, self._unpack_fetched, self._put, self._lock)
        self._forget()

    def _forget(self) -> None:
        """Begin empty; what a thread of the parent was doing when this process was forked is of no use here."""
        self._owner = os.getpid()
        self._leased: dict[Extent, _Slot] = {}
        self._idle: collections.OrderedDict[Extent, _Slot] = collections.OrderedDict()
        self._held = 0
        # 8 bytes a frame of the compressed shards read so far: 12 KB a shard of 100 million tokens.
        self._offsets: dict[int, Ints] = {}

    def keep(self, size: int) -> None:
        """Hold so many bytes from now on, if that is more than before."""
        self._limit = max(self._limit, size)

    @contextlib.contextmanager
    def leased(self, shards: Ints, places: Ints) -> Iterator[Ints]:
        """The addresses of distinct extents, in rising order, for the length of the block.

        Compressed shards that can be mapped must be.
        """
        keys = [Extent(*key) for key in zip(shards.tolist(), places.tolist(), strict=True)]
        slots: dict[Extent, _Slot] = {}
        try:
            self._take(keys, slots)
            yield np.array([slots[key].address for key in keys], dtype=np.int64)
        finally:
            self._give_back(slots)

    def _take(self, keys: list[Extent], slots: dict[Extent, _Slot]) -> None:
        """Lease every key: first what is here, so that it stays, then what must come."""
        fetched = self._table.bins.fetched
        with self._lock:
            slots.update((key, self._lease(key)) for key in keys if self._holds(key))
            missing = [key for key in keys if key not in slots]
            away = [key for key in missing if fetched[key.shard]]
            coming = self.supply.ask(away) if away else []
        here = [key for key in missing if not fetched[key.shard]]
        for key, data in zip(here, self._table.bins.parts([self._range(key) for key in here]), strict=True):
            slots[key] = self._lease_new(key, self._unpacked(key, data))
        for key, future in zip(away, coming, strict=True):
            slots[key] = self._lease_new(key, self._awaited(key, future))

    def _holds(self, key: Extent) -> bool:
        if self._owner != os.getpid():
            self._forget()
        return key in self._leased or key in self._idle

    def _lease(self, key: Extent) -> _Slot:
        slot = self._leased.get(key) or self._idle.pop(key)
        slot.leases += 1
        self._leased[key] = slot
        return slot

    def _lease_new(self, key: Extent, memory: Bytes) -> _Slot:
        with self._lock:
            self._put(key, memory)
            return self._lease(key)

    def _put(self, key: Extent, memory: Bytes) -> None:
        """Hold what has come; if another thread was first, its copy is the one that counts."""
        with self._lock:
            if not self._holds(key):
                self._reclaimed(len(memory))
                self._idle[key] = _Slot(memory, memory.ctypes.data)
                self._held += len(memory)

    def _awaited(self, key: Extent, future: Future[Bytes]) -> Bytes:
        """What was asked for; somebody else may have withdrawn it, who had asked for it ahead of time."""
        while True:
            try:
                return future.result()
            except CancelledError:
                (future,) = self.supply.ask([key])

    def ask_ahead(self, shards: Ints, places: Ints) -> int:
        """Let extents of fetched shards come that are not here; how many bytes these are."""
        keys = [Extent(*key) for key in zip(shards.tolist(), places.tolist(), strict=True)]
        with self._lock:
            missing = [key for key in keys if not self._holds(key)]
            self.supply.ask(missing, ahead=True)
        start, end = self._table.grid.byte_ranges(*(np.array([key[i] for key in missing], np.int64) for i in (0, 1)))
        return int((end - start).sum())

    def _range(self, key: Extent) -> tuple[int, int, int]:
        """The shard of a frame, and where its bytes begin and end in its mapped file."""
        table, shard = self._table, key.shard
        if shard not in self._offsets:
            size, tokens = table.bins.size(shard), int(table.starts[shard + 1] - table.starts[shard])
            name, itemsize = f"Shard {table.bins.path(shard)}", int(table.itemsizes[shard])
            self._offsets[shard] = frame_offsets(partial(self._read, shard), size, tokens, itemsize, name)
        first, end = self._offsets[shard][key.place : key.place + 2].tolist()
        return shard, first, end

    def _read(self, shard: int, at: int, size: int) -> bytes:
        return self._table.bins.bytes_of(shard)[at : at + size].tobytes()

    def _unpack_fetched(self, key: Extent, data: Bytes) -> Bytes:
        """What has come over the network: a frame, or tokens that are compared with the sums of their blocks."""
        if self._table.compressed[key.shard]:
            memory = self._unpacked(key, data, fresh=True)
            memory.flags.writeable = False  # whoever waits for it may come after it was let go: it is not used again
            return memory
        held, _ = self._table.grid.held(*_alone(key))
        self._table.check_fetched(key.shard, int(held[0]), data)
        return data

    def _unpacked(self, key: Extent, data: Bytes, *, fresh: bool = False) -> Bytes:
        """A frame's tokens, compared with its own sum, and with the store's: a good frame may be another store's.

        They lie in memory that was used before, unless it must be `fresh`.
        """
        itemsize, (first, end) = int(self._table.itemsizes[key.shard]), self._table.grid.tokens(*_alone(key))
        size = FRAME_TOKENS * itemsize
        found = None if fresh else self._reclaimed(size)
        memory = np.empty(size, dtype=np.uint8) if found is None else found
        name = f"Frame {key.place} of shard {self._table.bins.path(key.shard)}"
        tokens = memory[: int(end[0] - first[0]) * itemsize]
        decompress(data.data, tokens, name)
        self._table.check_fetched(key.shard, int(first[0]), tokens)
        return memory

    def _reclaimed(self, size: int) -> Bytes | None:
        """Let go of the longest unused until `size` bytes fit into the bound; of those, memory of just that size."""
        found = None
        with self._lock:
            while self._idle and self._held + size > self._limit:
                memory = self._idle.popitem(last=False)[1].memory
                self._held -= len(memory)
                found = memory if len(memory) == size and memory.flags.writeable else found
        return found

    def _give_back(self, slots: dict[Extent, _Slot]) -> None:
        with self._lock:
            for key, slot in slots.items():
                slot.leases -= 1
                if not slot.leases and self._leased.get(key) is slot:  # else it was leased before a fork
                    self._idle[key] = self._leased.pop(key)
        self._reclaimed(0)

    def read(self, shard: int, start: int, stop: int, out: npt.NDArray[np.generic]) -> None:
        """Copy tokens [start, stop) of a compressed shard to `out`, one frame after the other."""
        for frame in range(start // FRAME_TOKENS, -(-stop // FRAME_TOKENS)):
            base = frame * FRAME_TOKENS
            first, end = max(start, base), min(stop, base + FRAME_TOKENS)
            with self._table.bins.leased(one := np.array([shard])), self.leased(one, np.array([frame])) as addresses:
                tokens = view(int(addresses[0]), out.dtype.str, end - base)
                out[first - start : end - start] = tokens[first - base :]


def _alone(key: Extent) -> tuple[Ints, Ints]:
    """An extent as columns."""
    return np.array([key.shard]), np.array([key.place])
