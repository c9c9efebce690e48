"""Extents that are not on this machine: asked for once however many want them, checked as they come, 32 at a time.

What comes is compared with the sums of the store. What does not have them may be a bit that flipped on the way: it is
asked for once more, and is an error then. Where a store has no sums of its blocks (foreign files, compressed shards),
the version that the server told with the first part of a file must be that of all others.
"""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
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
from gristmill.store.grid import MOST_BYTES, Extent, runs
from gristmill.store.held import Held, SpareMemory
from gristmill.store.keeping import Keeping, Range, Unpack
from gristmill.store.seekable import frame_offsets, seek_table_size

if TYPE_CHECKING:
    from gristmill.store.table import ShardTable

# Half of them bring as many bytes a second from one server; where shards are small, a first batch is many answers.
REQUESTS = 32
# What a request brings at most where neighbours wait, too: four blocks of a MiB and what they are rounded by. They come
# together where the last answers came at so many bytes a second: what waits is there soon, in whatever order. On a
# line that is slower, what is needed first would wait for what is not.
TOGETHER_BYTES, TOGETHER_SPEED = 5 << 20, 100e6
# Such requests at a time: each has memory for its answer, which is kept for the next one.
TOGETHER_REQUESTS = 2
LAST_ANSWERS = 16


@dataclass(eq=False, slots=True)
class _Run:
    """Extents of one shard that follow each other, and where they lie: what one request brings."""

    bring: Callable[[_Run], None]
    keys: list[Extent]
    ranges: list[Range]

    def __call__(self) -> None:
        self.bring(self)


@dataclass(eq=False, slots=True)
class _Flight:
    """An extent that was asked for and has not come yet."""

    run: _Run
    future: Future[Held] = field(default_factory=Future)


class Pace:
    """How fast bytes come, by the last few answers. Safe to call from many threads."""

    def __init__(self) -> None:
        self._lock, self._last = Lock(), deque[tuple[float, int]](maxlen=LAST_ANSWERS + 1)

    def came(self, size: int) -> None:
        """Note an answer."""
        with self._lock:
            self._last.append((time.monotonic(), size))

    def is_fast(self) -> bool:
        """Whether there were some, and fast enough for neighbours to come together."""
        with self._lock:
            last = list(self._last)
        if len(last) <= LAST_ANSWERS:
            return False
        return sum(size for _, size in last[1:]) >= TOGETHER_SPEED * (last[-1][0] - last[0][0])


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
        self._pace = Pace()
        # What neighbours bring together. Once obstore gave memory for so much back, glibc would keep twice as much in
        # each of its arenas, and the process grow by 80 MB over some epochs; what is kept here is never given back.
        self._usual = max(MOST_BYTES, table.grid.most_bytes(table.framed))
        self._bodies = SpareMemory(TOGETHER_BYTES, self._usual)
        self._begin()

    def _begin(self) -> None:
        self._owner, self._readers, self._together = os.getpid(), 0, 0
        self._flights: dict[Extent, _Flight] = {}
        # 8 bytes a frame of the compressed shards read so far: 12 KB a shard of 100 million tokens.
        self._offsets: dict[int, Ints] = {}

    def _own(self) -> None:
        """Begin anew in a process that was forked: nobody is there to end what its parent began."""
        if self._owner != os.getpid():
            self._begin()

    def asked(self, key: Extent) -> bool:
        """Whether an extent is on its way."""
        return self._owner == os.getpid() and key in self._flights

    def ask(self, keys: list[Extent], *, ahead: bool = False) -> list[Future[Held]]:
        """The extents `keys`, in rising order: those on their way already are awaited, neighbours come together.

        `ahead` of time, they wait for what is urgent, and may be withdrawn.
        """
        with self._lock:
            self._own()
            self._send([key for key in keys if key not in self._flights], ahead)
            found = [self._flights[key] for key in keys]
            for flight in () if ahead else found:
                self._workers.hurry(flight.run)
        return [flight.future for flight in found]

    def _send(self, keys: list[Extent], ahead: bool) -> None:
        shards, places = (np.array([key[i] for key in keys], dtype=np.int64) for i in (0, 1))
        starts, ends = (self._table.headers[shards] + at for at in self._table.grid.byte_ranges(shards, places))
        for part in runs(shards, starts, ends):
            ranges = list(zip(starts[part].tolist(), ends[part].tolist(), strict=True))
            run = _Run(self._bring, keys[part], ranges)
            self._flights.update((key, _Flight(run)) for key in run.keys)
            self._workers.submit(run, ahead=ahead)

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
            tasks = self._workers.withdraw({flight.run for flight in self._flights.values()})
            gone = [self._flights.pop(key) for key, flight in list(self._flights.items()) if flight.run in tasks]
        for flight in gone:
            flight.future.cancel()

    def _with_neighbours(self, run: _Run) -> list[_Run]:
        """A run that is about to be brought, and what waits to bring its neighbours: in order, for one request.

        A server takes most of its time by the request, and what waits was asked for, and counted, already.
        """
        together = [run]
        if not self._pace.is_fast():
            return together
        with self._lock:
            if self._together == TOGETHER_REQUESTS:
                return together
            while other := self._waiting(together[-1].keys[-1], 1, together):
                together.append(other)
            while other := self._waiting(together[0].keys[0], -1, together):
                together.insert(0, other)
            self._together += len(together) > 1
        return together

    def _waiting(self, key: Extent, side: int, together: list[_Run]) -> _Run | None:
        """What waits to bring the extent beside `key`, if there is room for it; nobody else will bring that now."""
        flight = self._flights.get(Extent(key.shard, key.place + side))
        if flight is None or not _fits(flight.run, together) or not self._workers.take(flight.run):
            return None
        return flight.run

    def _bring(self, run: _Run) -> None:
        together = self._with_neighbours(run)
        try:
            found: list[Held] | BaseException = self._brought(*_joined(together))
        except StoreError as error:
            if len(together) > 1:  # of which one may be damaged, which is not for the others to tell
                for each in together:
                    self._bring(each)
                return
            found = error
        except BaseException as error:  # whoever waits is told, and whoever asks next asks anew
            found = error
        finally:
            with self._lock:
                self._together -= len(together) > 1
        self._hand_over(_joined(together)[0], found)

    def _hand_over(self, keys: list[Extent], found: list[Held] | BaseException) -> None:
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

    @contextmanager
    def _fetched(self, keys: list[Extent], ranges: list[Range], own: bool) -> Iterator[list[tuple[Bytes, Held]]]:
        """Extents that follow each other, by one request: as they came, for the length of the block, and unpacked."""
        at, size, found = ranges[0][0], ranges[-1][1] - ranges[0][0], []
        body = self._bodies.taken(size) if size > self._usual else None
        data = self._read(keys[0].shard, at, at + size, body)
        for key, (start, end) in zip(keys, ranges, strict=True):
            part = data[start - at : end - at]
            found.append((part, self._unpack(key, start, part, own)))
        yield found

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

    def _read(self, shard: int, start: int, end: int, to: Held | None = None) -> Bytes:
        """Bytes [start, end) of a file, all of them, in memory that is given or new; without sums, of one version."""
        path = self._table.bins.path(shard)
        with readable(path):
            data, version = self._answer(shard, path, start, end - start, to)
        if len(data) != end - start:
            raise StoreError(f"{path} ends before byte {end:,}: it was cut off or replaced.")
        self._pace.came(end - start)
        if not self._table.is_summed(shard):
            known = self._versions[shard] = int(self._versions[shard]) or version
            if version != known:
                raise StoreError(f"{path} was replaced while it was read: load the store anew, or restore the file.")
        return data

    def _answer(self, shard: int, path: str, start: int, size: int, to: Held | None) -> tuple[Bytes, int]:
        """What there is of `size` bytes of a file from `start` on, and its version, of which sums need not know."""
        place, version = self._place_at(path), 0
        if to is not None:
            came, version = place.read_into(start, to.memory.data)
            return to.memory[:came], version
        if self._table.is_summed(shard):
            data = place.read_part(start, size)
        else:
            data, version = place.read_version(start, size)
        return np.frombuffer(data, np.uint8), version


def _joined(together: list[_Run]) -> tuple[list[Extent], list[Range]]:
    return [key for run in together for key in run.keys], [where for run in together for where in run.ranges]


def _fits(run: _Run, together: list[_Run]) -> bool:
    """Whether one request may bring a run, too, beside those that it brings already."""
    sizes = (each.ranges[-1][1] - each.ranges[0][0] for each in (run, *together))
    return run not in together and sum(sizes) <= TOGETHER_BYTES
