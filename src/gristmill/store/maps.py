"""Read-only memory maps of many files, held open without descriptors, up to a bound.

A map needs no descriptor once it is made, so 10,000 shards cost address space only; Python's own mmap keeps one
descriptor each and would meet the usual limit of 1,024. A miss costs about 14 microseconds (open, fstat, mmap,
close). Beyond the bound (16,384 maps; Linux allows 65,530 a process) the longest unused ones are unmapped, never one
that a reader has leased. What lies where a map would be a whole copy is not mapped: parts of it are fetched.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import weakref
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gristmill.core.arrays import Bytes, Ints, Mask
from gristmill.core.errors import StoreError
from gristmill.core.locks import Lock
from gristmill.places.door import place_at
from gristmill.places.memory import advise, unmap, view
from gristmill.places.traffic import traffic
from gristmill.store.files import readable

MAX_MAPS = 16_384
# Of files that are copied to be mapped: indices and sums of shards that are not on this machine, at most some MB each.
MAX_COPIES = 256
_SIDE_BY_SIDE = 16
# The file is there, but the process has no room for its map, or it is no file.
_UNMAPPABLE = (errno.ENOMEM, errno.ENODEV)


class Maps:
    """The maps of `count` files, made when first leased: `addresses[i]` is 0 until file i is mapped.

    `path(i)` names file i, `size(i)` says how many bytes it must have (None: any), `check(i, bytes)` refuses what may
    not be read. With `random` a page fault reads its own page only, not the megabytes around it. Of `fetched` files
    no map is made.
    """

    def __init__(
        self,
        count: int,
        path: Callable[[int], str],
        size: Callable[[int], int | None],
        bound: int = MAX_MAPS,
        random: bool = False,
        check: Callable[[int, Bytes], object] = lambda file, data: None,
        fetched: Mask | None = None,
    ) -> None:
        self.addresses = np.zeros(count, dtype=np.int64)
        self.fetched = np.zeros(count, dtype=np.bool_) if fetched is None else fetched
        self._sizes = np.zeros(count, dtype=np.int64)
        self._leases = np.zeros(count, dtype=np.int32)
        self._used = np.zeros(count, dtype=np.int64)
        self._clock = self._open = 0
        self.path, self._size, self._check, self._bound, self._random = path, size, check, bound, random
        self.evicts = count > bound  # else what is mapped stays so
        self._lock = Lock()
        # One thread maps a file, others meanwhile other files: those that are copied over a network take their time.
        self._mapping = [Lock() for _ in range(_SIDE_BY_SIDE)]
        weakref.finalize(self, _unmap_all, self.addresses, self._sizes)

    @contextlib.contextmanager
    def leased(self, files: Ints) -> Iterator[Ints]:
        """Map `files` and keep them mapped for the length of the block; yields the table of all addresses."""
        if not self.evicts:
            self.ensure(files)
            yield self.addresses
            return
        distinct = np.unique(files)
        with self._lock:
            self._leases[distinct] += 1
            self._clock += 1
            self._used[distinct] = self._clock
        try:
            self.ensure(distinct)
            yield self.addresses
        finally:
            with self._lock:
                self._leases[distinct] -= 1
                if self._open > self._bound:
                    self._evict()

    def bytes_of(self, file: int) -> Bytes:
        """All bytes of a mapped file."""
        return view(int(self.addresses[file]), "u1", int(self._sizes[file]))

    def size(self, file: int) -> int:
        """The bytes of a file, mapped or not."""
        return int(self._sizes[file]) or self._size(file) or 0

    def parts(self, ranges: Sequence[tuple[int, int, int]]) -> Iterator[Bytes]:
        """Bytes [start, end) of each (file, start, end), the disk being asked for all before the first is given."""
        parts = [self.bytes_of(file)[start:end] for file, start, end in ranges]
        for part in parts:
            advise(part.ctypes.data, len(part), mmap.MADV_WILLNEED)
        return iter(parts)

    def ensure(self, files: Ints) -> None:
        """Map what is not mapped yet."""
        missing = files[(self.addresses[files] == 0) & ~self.fetched[files]]
        if not len(missing):
            return
        for file in np.unique(missing).tolist():
            with self._mapping[file % _SIDE_BY_SIDE]:
                if self.addresses[file] == 0:
                    self._map(file)

    def _map(self, file: int) -> None:
        """Map a file; what was copied over a network and is not whole is copied once more."""
        try:
            address, size = self._checked(file)
        except StoreError:
            if place_at(self.path(file)).maps:
                raise
            traffic.again()
            address, size = self._checked(file)
        with self._lock:
            if self._open >= self._bound:
                self._evict()
            self.addresses[file], self._sizes[file] = address, size
            self._open += size > 0

    def _checked(self, file: int) -> tuple[int, int]:
        """A map of a file that may be read."""
        address, size = _mapped(self.path(file))
        try:
            self._check_size(file, size)
            self._check(file, view(address, "u1", size))
        except BaseException:
            unmap(address, size)
            raise
        if self._random and size:
            advise(address, size, mmap.MADV_RANDOM)
        return address, size

    def _check_size(self, file: int, size: int) -> None:
        expected = self._size(file)
        if expected is not None and size != expected:
            raise StoreError(
                f"{self.path(file)} has {size:,} bytes, {expected:,} were expected: it was cut off or replaced."
            )

    def _evict(self) -> None:
        """Unmap the longest unused of what nobody has leased: a sixteenth, or all that is beyond the bound."""
        idle = np.flatnonzero((self.addresses != 0) & (self._leases == 0))
        oldest = idle[np.argsort(self._used[idle], kind="stable")][
            : max(self._bound // 16, self._open - self._bound, 1)
        ]
        for file in oldest:
            unmap(int(self.addresses[file]), int(self._sizes[file]))
        self.addresses[oldest] = self._sizes[oldest] = 0
        self._open -= len(oldest)


def _mapped(path: str) -> tuple[int, int]:
    with readable(path):
        try:
            return place_at(path).map()
        except OSError as error:
            if error.errno in _UNMAPPABLE:
                raise StoreError(f"{path} cannot be memory-mapped ({error.strerror}).") from error
            raise


def _unmap_all(addresses: Ints, sizes: Ints) -> None:
    for file in np.flatnonzero(addresses):
        unmap(int(addresses[file]), int(sizes[file]))
    addresses[:] = sizes[:] = 0
