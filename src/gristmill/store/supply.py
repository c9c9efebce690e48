"""Extents that are not on this machine: asked for once however many want them, checked as they come, 32 at a time.

What comes is compared with the sums of the store. What does not have them may be a bit that flipped on the way: it is
asked for once more, and is an error then. Where a store has no sums of its blocks (foreign files, compressed shards),
the version that the server told with the first part of a file must be that of all others.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.errors import StoreError
from gristmill.core.locks import Lock
from gristmill.places.door import place_at
from gristmill.places.traffic import traffic
from gristmill.places.workers import Task, Workers
from gristmill.store.files import readable
from gristmill.store.grid import Extent, runs
from gristmill.store.held import Held
from gristmill.store.keeping import Keeping, Range, Unpack
from gristmill.store.seekable import frame_offsets, seek_table_size

if TYPE_CHECKING:
    from gristmill.store.table import ShardTable

# Half of them bring as many bytes a second from one server; where shards are small, a first batch is many answers.
REQUESTS = 32


@dataclass(eq=False, slots=True)
class _Flight:
    """An extent that was asked for and has not come yet."""

    task: Task
    future: Future[Held] = field(default_factory=Future)


class Supply:
    """Brings extents of a table's fetched shards. Safe to call from many threads, and empty after a fork.

    `unpack` checks or decompresses what came, `deliver` takes it; under `lock` an extent is either on its way or there.
    """

    def __init__(
        self, table: ShardTable, unpack: Unpack, deliver: Callable[[Extent, Held], object], lock: Lock
    ) -> None:
        self._table, self._unpack, self._deliver, self._lock = table, unpack, deliver, lock
        self._versions = np.zeros(len(table.headers), dtype=np.int64)
        self._workers = Workers(REQUESTS, "gristmill-fetch")
        self._place_at = functools.lru_cache(maxsize=256)(place_at)
        self.keeping = Keeping(table)
        # One file is asked for its seek table by one thread at a time.
        self._tables = [Lock() for _ in range(REQUESTS)]
        self._begin()

    def _begin(self) -> None:
        self._owner, self._readers = os.getpid(), 0
        self._flights: dict[Extent, _Flight] = {}
        # 8 bytes a frame of the compressed shards read so far: 12 KB a shard of 100 million tokens.
        self._offsets: dict[int, Ints] = {}

    def _own(self) -> None:
        """Begin anew in a process that was forked: nobody is there to end what its parent began."""
        if self._owner != os.getpid():
            self._begin()

    def ask(self, keys: list[Extent], *, ahead: bool = False) -> list[Future[Held]]:
        """The extents `keys`, in rising order: those on their way already are awaited, neighbours come together.

        `ahead` of time, they wait for what is urgent, and may be withdrawn.
        """
        with self._lock:
            self._own()
            self._send([key for key in keys if key not in self._flights], ahead)
            found = [self._flights[key] for key in keys]
            for flight in () if ahead else found:
                self._workers.hurry(flight.task)
        return [flight.future for flight in found]

    def _send(self, keys: list[Extent], ahead: bool) -> None:
        shards, places = (np.array([key[i] for key in keys], dtype=np.int64) for i in (0, 1))
        starts, ends = (self._table.headers[shards] + at for at in self._table.grid.byte_ranges(shards, places))
        for run in runs(shards, starts, ends):
            together = keys[run]
            task = functools.partial(
                self._bring, together, list(zip(starts[run].tolist(), ends[run].tolist(), strict=True))
            )
            self._flights.update((key, _Flight(task)) for key in together)
            self._workers.submit(task, ahead=ahead)

    def then(self, task: Task) -> None:
        """Run a task that asks for more, beside the requests."""
        self._workers.submit(task)

    def enter(self) -> None:
        """Have one more who asks ahead of time."""
        with self._lock:
            self._own()
            self._readers += 1

    def leave(self, wait: bool) -> None:
        """Have one fewer. After the last one what has not begun is forgotten; with `wait`, the threads have ended."""
        with self._lock:
            self._readers -= self._owner == os.getpid()
            last = self._readers == 0
        if last:
            self._withdraw()
            if wait:
                self._workers.join()

    def _withdraw(self) -> None:
        with self._lock:
            tasks = self._workers.withdraw({flight.task for flight in self._flights.values()})
            gone = [self._flights.pop(key) for key, flight in list(self._flights.items()) if flight.task in tasks]
        for flight in gone:
            flight.future.cancel()

    def _bring(self, keys: list[Extent], ranges: list[Range]) -> None:
        try:
            found: list[Held] | BaseException = self._brought(keys, ranges)
        except BaseException as error:  # whoever waits is told, and whoever asks next asks anew
            found = error
        for i, key in enumerate(keys):
            with self._lock:
                flight = self._flights.pop(key)
                try:
                    if not isinstance(found, BaseException):
                        self._deliver(key, found[i])
                except BaseException as error:  # else who waits would wait for ever
                    found = error
            if isinstance(found, BaseException):
                flight.future.set_exception(found)
            else:
                flight.future.set_result(found[i])

    def _brought(self, keys: list[Extent], ranges: list[Range]) -> list[Held]:
        """Neighbours of one shard, unpacked; what does not have its sum is brought once more."""
        try:
            return self._kept_or_fetched(keys, ranges)
        except StoreError:
            traffic.again()
            return self._kept_or_fetched(keys, ranges)

    def _kept_or_fetched(self, keys: list[Extent], ranges: list[Range]) -> list[Held]:
        if self._table.compressed[keys[0].shard]:
            ends = self._frames_of(keys[0].shard)
            ranges = [(int(ends[key.place]), int(ends[key.place + 1])) for key in keys]
        return self.keeping.through(keys, ranges, self._fetched, self._unpack)

    def _fetched(self, keys: list[Extent], ranges: list[Range], own: bool) -> list[tuple[Bytes, Held]]:
        """Extents that follow each other, by one request: as they came, and unpacked."""
        at, data = ranges[0][0], self._read(keys[0].shard, ranges[0][0], ranges[-1][1])
        found = []
        for key, (start, end) in zip(keys, ranges, strict=True):
            part = data[start - at : end - at]
            found.append((part, self._unpack(key, start, part, own)))
        return found

    def _frames_of(self, shard: int) -> Ints:
        """Where the frames of a compressed shard begin; its seek table is one request."""
        with self._tables[shard % REQUESTS]:
            if shard not in self._offsets:
                table, size = self._table, self._table.bins.size(shard)
                tokens = int(table.starts[shard + 1] - table.starts[shard])
                at = max(size - seek_table_size(tokens), 0)
                tail, name = self._read(shard, at, size).tobytes(), f"Shard {table.bins.path(shard)}"
                self._offsets[shard] = frame_offsets(
                    lambda start, count: tail[start - at :][:count], size, tokens, int(table.itemsizes[shard]), name
                )
            return self._offsets[shard]

    def _read(self, shard: int, start: int, end: int) -> Bytes:
        """Bytes [start, end) of a file, all of them; without sums, of the version that was read before."""
        path, summed = self._table.bins.path(shard), self._table.is_summed(shard)
        place, version = self._place_at(path), 0
        with readable(path):
            if summed:
                data = place.read_part(start, end - start)
            else:
                data, version = place.read_version(start, end - start)
        if len(data) != end - start:
            raise StoreError(f"{path} ends before byte {end:,}: it was cut off or replaced.")
        known = int(self._versions[shard]) or version
        self._versions[shard] = known
        if version != known:
            raise StoreError(f"{path} was replaced while it was read: load the store anew, or restore the file.")
        return np.frombuffer(data, np.uint8)
