"""Read-only memory maps of many files, held open without descriptors, up to a bound.

A map needs no descriptor once it is made, so 10,000 shards cost address space only; Python's own mmap keeps one
descriptor each and would meet the usual limit of 1,024. A miss costs about 14 microseconds (open, fstat, mmap,
close). Beyond the bound (16,384 maps; Linux allows 65,530 a process) the longest unused ones are unmapped, never one
that a reader has leased.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.core.errors import StoreError
from gristmill.core.locks import Lock

MAX_MAPS = 16_384
_MAP_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def map_file(path: str, size: int | None = None) -> tuple[int, int]:
    """Map a whole file, read-only: its address and size. With `size`, a file of any other size is an error."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"{path} cannot be opened ({error.strerror}): bring the file back.") from error
    try:
        found = os.fstat(fd).st_size
        if size is not None and found != size:
            raise StoreError(f"{path} has {found:,} bytes, {size:,} were expected: it was cut off or replaced.")
        if found == 0:
            return 0, 0
        address = _libc.mmap(None, found, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if address == _MAP_FAILED:
            raise StoreError(f"{path} cannot be memory-mapped ({os.strerror(ctypes.get_errno())}).")
        return address, found
    finally:
        os.close(fd)


def unmap(address: int, size: int) -> None:
    """Give a map back."""
    if size:
        _libc.munmap(address, size)


def advise(address: int, size: int, advice: int) -> None:
    """madvise on the pages that hold [address, address + size); a hint, so failure is of no matter."""
    start = address - address % mmap.PAGESIZE
    _libc.madvise(start, address + size - start, advice)


def resident(address: int) -> bool:
    """Whether the page at an address is in memory, as far as the kernel tells."""
    answer = ctypes.c_ubyte(1)
    _libc.mincore(address - address % mmap.PAGESIZE, 1, ctypes.byref(answer))
    return bool(answer.value & 1)


def view(address: int, dtype: str, count: int) -> npt.NDArray[np.generic]:
    """A numpy array over mapped bytes. The caller keeps the map alive for as long as the array is used."""
    size = np.dtype(dtype).itemsize * count
    buffer = (ctypes.c_char * size).from_address(address)
    array: npt.NDArray[np.generic] = np.frombuffer(memoryview(buffer), dtype=dtype, count=count)
    array.flags.writeable = False
    return array


class Maps:
    """The maps of `count` files, made when first leased: `addresses[i]` is 0 until file i is mapped.

    `path(i)` names file i, `size(i)` says how many bytes it must have (None: any), `check(i, bytes)` refuses what may
    not be read. With `random` a page fault reads its own page only, not the megabytes around it.
    """

    def __init__(
        self,
        count: int,
        path: Callable[[int], str],
        size: Callable[[int], int | None],
        bound: int = MAX_MAPS,
        random: bool = False,
        check: Callable[[int, npt.NDArray[Any]], object] = lambda file, data: None,
    ) -> None:
        self.addresses = np.zeros(count, dtype=np.int64)
        self._sizes = np.zeros(count, dtype=np.int64)
        self._leases = np.zeros(count, dtype=np.int32)
        self._used = np.zeros(count, dtype=np.int64)
        self._clock = self._open = 0
        self.path, self._size, self._check, self._bound, self._random = path, size, check, bound, random
        self._lock = Lock()
        self._close = weakref.finalize(self, _unmap_all, self.addresses, self._sizes)

    @contextlib.contextmanager
    def leased(self, files: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """Map `files` and keep them mapped for the length of the block; yields the table of all addresses."""
        if len(self.addresses) <= self._bound:
            self._ensure(files)
            yield self.addresses
            return
        distinct = np.unique(files)
        with self._lock:
            self._leases[distinct] += 1
            self._clock += 1
            self._used[distinct] = self._clock
        try:
            self._ensure(distinct)
            yield self.addresses
        finally:
            with self._lock:
                self._leases[distinct] -= 1
                if self._open > self._bound:
                    self._evict()

    def address(self, file: int) -> int:
        """The address of one file, mapped now if need be; only for tables within the bound, or under a lease."""
        self._ensure(np.array([file]))
        return int(self.addresses[file])

    def bytes_of(self, file: int) -> npt.NDArray[np.uint8]:
        """All bytes of a mapped file."""
        whole: npt.NDArray[Any] = view(int(self.addresses[file]), "u1", int(self._sizes[file]))
        return whole

    def _ensure(self, files: npt.NDArray[np.int64]) -> None:
        missing = files[self.addresses[files] == 0]
        if not len(missing):
            return
        with self._lock:
            for file in np.unique(missing):
                if self.addresses[file] == 0:
                    self._map(int(file))

    def _map(self, file: int) -> None:
        if self._open >= self._bound:
            self._evict()
        address, size = map_file(self.path(file), self._size(file))
        try:
            self._check(file, view(address, "u1", size))
        except BaseException:
            unmap(address, size)
            raise
        if self._random and size:
            advise(address, size, mmap.MADV_RANDOM)
        self.addresses[file], self._sizes[file] = address, size
        self._open += size > 0

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

    def close(self) -> None:
        """Unmap everything now; arrays over the maps must not be used any more."""
        self._close()


def _unmap_all(addresses: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> None:
    for file in np.flatnonzero(addresses):
        unmap(int(addresses[file]), int(sizes[file]))
    addresses[:] = sizes[:] = 0
