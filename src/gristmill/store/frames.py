"""Extents of shards that are not mapped as they are, kept up to bounds: the longest unused go first, none in use.

An extent (see `grid.py`) is a frame of 65,536 tokens that is decompressed, or a part of a plain file that is fetched.
Random samples of 2,048 tokens hardly ever meet a frame twice, so that each costs a whole frame (0.17 ms to decompress):
the cache is for neighbours (labels across an edge, packed documents, a stream in order) and for orders that come back
to a block. The memory of extents is used again rather than given back (`held.py`). What came ahead of time and nobody
has read yet stands apart, with a bound of its own; of what was read goes first what the plan does not come back to.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.locks import Lock
from gristmill.places.eviction import READ
from gristmill.places.memory import view
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.grid import Extent
from gristmill.store.held import Held, Shelf, SpareMemory
from gristmill.store.seekable import decompress, frame_offsets
from gristmill.store.supply import Supply

if TYPE_CHECKING:
    from gristmill.store.table import ShardTable

CACHE_BYTES = 64 << 20


class Frames:
    """The extents of a table's framed shards, by their numbers in its grid. Safe to call from many threads.

    At most `limit` bytes are held beside what is being read. Two threads that miss one extent at the same time both
    bring it: waiting for each other would cost more than it saves, and could hang a fork.
    """

    def __init__(self, table: ShardTable, limit: int = CACHE_BYTES) -> None:
        self._table, self._limit, self._most_read = table, limit, limit
        self._lock = Lock()
        self._spare = SpareMemory(table.grid.most_bytes(table.framed))
        self.supply = Supply(table, self._unpack_fetched, self._put, self._lock)
        self._forget()

    def _forget(self) -> None:
        """Begin empty; what a thread of the parent was doing when this process was forked is of no use here."""
        self._owner = os.getpid()
        self._unread, self._read, self._done = Shelf(), Shelf(), Shelf()
        # 8 bytes a frame of the compressed shards read so far: 12 KB a shard of 100 million tokens.
        self._offsets: dict[int, Ints] = {}

    def _own(self) -> tuple[Shelf, Shelf, Shelf]:
        """What this very process holds: what it has not read, what it has read, and what is not needed again soon."""
        if self._owner != os.getpid():
            self._forget()
        return self._unread, self._read, self._done

    def keep(self, size: int, read: int) -> None:
        """Hold so many bytes from now on, so many of them after they were read, if that is more than before."""
        self._limit, self._most_read = max(self._limit, size), max(self._most_read, read)

    @contextlib.contextmanager
    def leased(self, numbers: Ints) -> Iterator[Ints]:
        """The addresses of distinct extents, in rising order, for the length of the block.

        Compressed shards that can be mapped must be.
        """
        keys = numbers.tolist()
        found = self._found(keys)
        if len(found) < len(keys):
            self._bring([key for key in keys if key not in found], found)
        yield np.array([found[key].address for key in keys], dtype=np.int64)

    def _found(self, keys: list[int]) -> dict[int, Held]:
        """Those of some extents that are here, which are the last to go from now on."""
        with self._lock:
            unread, read, done = self._own()
            found = {key: read[key] for key in keys if key in read}
            for key in found:
                read.move_to_end(key)
            for key in [key for key in keys if key not in found]:
                if held := unread.taken(key) or done.taken(key):
                    found[key] = self._hold(key, held)
        return found

    def _bring(self, keys: list[int], found: dict[int, Held]) -> None:
        """Add what is not here: by unpacking it, and by asking for what is not on this machine before that."""
        with self._lock:  # an extent is either on its way or there
            found |= self._found(keys)
            missing = {key: number for key, number in self._extents(keys) if number not in found}
            away = [key for key in missing if self._table.bins.fetched[key.shard]]
            coming = self.supply.ask(away) if away else []
        here = [key for key in missing if not self._table.bins.fetched[key.shard]]
        for key, data in zip(here, self._table.bins.parts([self._range(key) for key in here]), strict=True):
            found[missing[key]] = self._hold(missing[key], self._unpacked(key, data))
        for key, future in zip(away, coming, strict=True):
            found[missing[key]] = self._hold(missing[key], self._awaited(key, future))

    def _hold(self, number: int, came: Held) -> Held:
        """Hold what is being read; if another thread was first, its copy is the one that counts."""
        with self._lock:
            unread, read, done = self._own()
            if number not in read:
                _ = unread.taken(number), done.taken(number)
                self._make_room(len(came.memory))
                read.put(number, came)
            return read[number]

    def _extents(self, numbers: list[int]) -> Iterator[tuple[Extent, int]]:
        """Extents with their numbers."""
        shards, places = self._table.grid.placed(np.array(numbers, dtype=np.int64))
        return zip(map(Extent, shards.tolist(), places.tolist()), numbers, strict=True)

    def _put(self, key: Extent, came: Held) -> None:
        """Hold what has come until it is read."""
        number = int(self._table.grid.firsts[key.shard]) + key.place
        with self._lock:
            if not any(number in shelf for shelf in self._own()):
                self._make_room(len(came.memory))
                self._unread.put(number, came)

    def _awaited(self, key: Extent, future: Future[Held]) -> Held:
        """What was asked for; somebody else may have withdrawn it, who had asked for it ahead of time."""
        while True:
            try:
                return future.result()
            except CancelledError:
                (future,) = self.supply.ask([key])

    def ask_ahead(self, numbers: Ints) -> int:
        """Let extents of fetched shards come that are neither here nor on their way; how many bytes these are."""
        with self._lock:
            unread, read, done = self._own()
            away = [key for key in numbers.tolist() if key not in read and key not in unread and key not in done]
            missing = [key for key, _ in self._extents(away) if not self.supply.asked(key)]
            self.supply.ask(missing, ahead=True)
        shards, places = np.array(missing, dtype=np.int64).reshape(-1, 2).T
        start, end = self._table.grid.byte_ranges(shards, places)
        return int((end - start).sum())

    def _range(self, key: Extent) -> tuple[int, int, int]:
        """The shard of a frame, and where its bytes begin and end in its mapped file."""
        table, shard = self._table, key.shard
        if shard not in self._offsets:
            size, tokens = table.bins.size(shard), int(table.starts[shard + 1] - table.starts[shard])
            name, itemsize = f"Shard {table.bins.path(shard)}", int(table.itemsizes[shard])
            self._offsets[shard] = frame_offsets(partial(self._bytes_at, shard), size, tokens, itemsize, name)
        first, end = self._offsets[shard][key.place : key.place + 2].tolist()
        return shard, first, end

    def _bytes_at(self, shard: int, at: int, size: int) -> bytes:
        return self._table.bins.bytes_of(shard)[at : at + size].tobytes()

    def _unpack_fetched(self, key: Extent, at: int, data: Bytes, own: bool) -> Held:
        """What has come, from byte `at` of its file on: a frame, or tokens that are compared with their blocks' sums.

        own: nobody else keeps the bytes, which then are copied into memory that is used again.
        """
        if self._table.compressed[key.shard]:
            return self._unpacked(key, data)
        held = self._spare.taken(len(data)) if own else Held(data)
        to = held.memory if own else None
        self._table.check_fetched(key.shard, at - int(self._table.headers[key.shard]), data, to)
        return held

    def _unpacked(self, key: Extent, data: Bytes) -> Held:
        """A frame's tokens, compared with its own sum, and with the store's: a good frame may be another store's."""
        itemsize, (first, end) = int(self._table.itemsizes[key.shard]), self._table.grid.tokens(*_alone(key))
        name = f"Frame {key.place} of shard {self._table.bins.path(key.shard)}"
        self._make_room(FRAME_TOKENS * itemsize)  # which may be what is used again now
        held = self._spare.taken(FRAME_TOKENS * itemsize)
        tokens = held.memory[: int(end[0] - first[0]) * itemsize]
        decompress(data.data, tokens, name)
        self._table.check_fetched(key.shard, int(first[0]) * itemsize, tokens)
        return held

    def _make_room(self, size: int) -> None:
        """Let go of what is done with, then of the longest unused, until `size` bytes fit into the bounds.

        What is unread takes the room that what was read leaves it, and has some of its own.
        """
        with self._lock:
            unread, read, done = self._own()
            room = min(self._most_read, self._limit - unread.bytes) - size
            if read and not done and read.bytes > room:
                self._finish(read, done)
            done.shrink(room - read.bytes)
            own = self._limit - self._most_read or self._limit // 2
            unread.shrink(max(own, self._limit - read.bytes - size))
            read.shrink(min(self._most_read, self._limit - unread.bytes) - size)

    def _finish(self, read: Shelf, done: Shelf) -> None:
        """Set aside what the plan does not read again in this epoch, the longest unused first."""
        numbers, grid = list(read), self._table.grid
        shards, places = grid.placed(np.array(numbers, dtype=np.int64))
        waits = self.supply.keeping.next_use(self._table.starts[shards] + grid.tokens(shards, places)[0])
        for i in np.flatnonzero(waits >= READ).tolist():
            if held := read.taken(numbers[i]):
                done.put(numbers[i], held)

    def read(self, shard: int, start: int, stop: int, out: npt.NDArray[np.generic]) -> None:
        """Copy tokens [start, stop) of a compressed shard to `out`, one frame after the other."""
        for frame in range(start // FRAME_TOKENS, -(-stop // FRAME_TOKENS)):
            base = frame * FRAME_TOKENS
            first, end = max(start, base), min(stop, base + FRAME_TOKENS)
            with (
                self._table.bins.leased(one := np.array([shard])),
                self.leased(self._table.grid.firsts[one] + frame) as addresses,
            ):
                tokens = view(int(addresses[0]), out.dtype.str, end - base)
                out[first - start : end - start] = tokens[first - base :]


def _alone(key: Extent) -> tuple[Ints, Ints]:
    """An extent as columns."""
    return np.array([key.shard]), np.array([key.place])
