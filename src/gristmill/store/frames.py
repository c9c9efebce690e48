"""Frames of shards that are not mapped as they are, kept up to a bound: the longest unused go first, none that is read.

A frame is 65,536 tokens: one that is decompressed, or a stretch of a plain file that is fetched, since a request takes
about as long for 128 KiB as for 4. Random samples of 2,048 tokens hardly ever meet a frame twice, so that each costs a
whole frame (0.17 ms to decompress): the cache is for neighbours (labels across an edge, packed documents, a stream in
order), and its memory is used again rather than given back, since a fresh page costs as much as decompressing into it.
"""

from __future__ import annotations

import collections
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.locks import Lock
from gristmill.places.memory import view
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.seekable import decompress, frame_offsets

if TYPE_CHECKING:
    from gristmill.store.table import ShardTable

CACHE_BYTES = 64 << 20
Key = tuple[int, int]


@dataclass(eq=False, slots=True)
class _Slot:
    """The memory of one frame and how many readers it has."""

    memory: Bytes
    address: int
    leases: int = 0


class Frames:
    """The frames of a table's shards. Safe to call from many threads.

    At most `limit` bytes are held, or what is leased at one time, if that is more. Two threads that miss one frame at
    the same time both decompress it: waiting for each other would cost more than it saves, and could hang a fork.
    """

    def __init__(self, table: ShardTable, limit: int = CACHE_BYTES) -> None:
        self._table = table
        self._frame_bytes = FRAME_TOKENS * int(table.itemsizes.max())
        self._most = max(limit // self._frame_bytes, 1)
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        """Begin empty; what a thread of the parent was doing when this process was forked is of no use here."""
        self._owner = os.getpid()
        self._leased: dict[Key, _Slot] = {}
        self._idle: collections.OrderedDict[Key, _Slot] = collections.OrderedDict()
        # 8 bytes a frame of the compressed shards read so far: 12 KB a shard of 100 million tokens.
        self._offsets: dict[int, Ints] = {}

    def keep(self, count: int) -> None:
        """Hold so many frames from now on, if that is more than before."""
        self._most = max(self._most, count)

    @contextlib.contextmanager
    def leased(self, shards: Ints, frames: Ints) -> Iterator[Ints]:
        """The addresses of distinct (shard, frame) pairs for the length of the block; what can be mapped must be."""
        keys = list(zip(shards.tolist(), frames.tolist(), strict=True))
        slots: dict[Key, _Slot] = {}
        try:
            self._take(keys, slots)
            yield np.array([slots[key].address for key in keys], dtype=np.int64)
        finally:
            self._give_back(slots)

    def _take(self, keys: list[Key], slots: dict[Key, _Slot]) -> None:
        """Lease every key: first what is here, so that it stays, then what must come."""
        with self._lock:
            if self._owner != os.getpid():
                self._forget()
            slots.update((key, self._lease(key)) for key in keys if key in self._leased or key in self._idle)
        missing = [key for key in keys if key not in slots]
        for key, data in zip(missing, self._table.bins.parts([self._range(*key) for key in missing]), strict=True):
            slots[key] = self._add(key, data)

    def _lease(self, key: Key) -> _Slot:
        slot = self._leased.get(key) or self._idle.pop(key)
        slot.leases += 1
        self._leased[key] = slot
        return slot

    def _range(self, shard: int, frame: int) -> tuple[int, int, int]:
        """The shard's number, and where the bytes of a frame begin and end in its file."""
        table, itemsize = self._table, int(self._table.itemsizes[shard])
        if not table.compressed[shard]:
            first = int(table.headers[shard]) + frame * FRAME_TOKENS * itemsize
            return shard, first, first + self._tokens_of(shard, frame) * itemsize
        if shard not in self._offsets:
            size, tokens = table.bins.size(shard), int(table.starts[shard + 1] - table.starts[shard])
            name = f"Shard {table.bins.path(shard)}"
            self._offsets[shard] = frame_offsets(partial(self._read, shard), size, tokens, itemsize, name)
        first, end = self._offsets[shard][frame : frame + 2].tolist()
        return shard, first, end

    def _read(self, shard: int, at: int, size: int) -> bytes:
        return next(self._table.bins.parts([(shard, at, at + size)])).tobytes()

    def _tokens_of(self, shard: int, frame: int) -> int:
        """How many tokens a frame has: all but the last of a shard as many."""
        tokens = int(self._table.starts[shard + 1] - self._table.starts[shard])
        return min(tokens - frame * FRAME_TOKENS, FRAME_TOKENS)

    def _add(self, key: Key, data: Bytes) -> _Slot:
        """Fill memory outside of the lock; if another thread was first, its copy is the one that counts."""
        memory = self._memory()
        self._fill(*key, data, memory[: self._tokens_of(*key) * int(self._table.itemsizes[key[0]])])
        with self._lock:
            if key not in self._leased and key not in self._idle:
                self._idle[key] = _Slot(memory, memory.ctypes.data)
            return self._lease(key)

    def _fill(self, shard: int, frame: int, data: Bytes, memory: Bytes) -> None:
        """Tokens as they were written, which the sums of their frame or of their blocks say."""
        if self._table.compressed[shard]:
            decompress(data.data, memory, f"Frame {frame} of shard {self._table.bins.path(shard)}")
        else:
            memory[:] = data
            self._table.check_fetched(shard, frame * FRAME_TOKENS, memory)

    def _memory(self) -> Bytes:
        """Memory for a frame: that of the longest unused one, once the bound is reached."""
        with self._lock:
            if self._idle and len(self._leased) + len(self._idle) >= self._most:
                return self._idle.popitem(last=False)[1].memory
        return np.empty(self._frame_bytes, dtype=np.uint8)

    def _give_back(self, slots: dict[Key, _Slot]) -> None:
        with self._lock:
            for key, slot in slots.items():
                slot.leases -= 1
                if not slot.leases and self._leased.get(key) is slot:  # else it was leased before a fork
                    self._idle[key] = self._leased.pop(key)
            while self._idle and len(self._leased) + len(self._idle) > self._most:
                self._idle.popitem(last=False)

    def read(self, shard: int, start: int, stop: int, out: npt.NDArray[np.generic]) -> None:
        """Copy tokens [start, stop) of a shard to `out`, one frame after the other."""
        for frame in range(start // FRAME_TOKENS, -(-stop // FRAME_TOKENS)):
            base = frame * FRAME_TOKENS
            first, end = max(start, base), min(stop, base + FRAME_TOKENS)
            with self._table.bins.leased(one := np.array([shard])), self.leased(one, np.array([frame])) as addresses:
                tokens = view(int(addresses[0]), out.dtype.str, end - base)
                out[first - start : end - start] = tokens[first - base :]
