"""Bytes at an address: read-only maps that hold no descriptor, what the kernel is told of them, arrays over them."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Bytes

_MAP_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def map_descriptor(fd: int) -> tuple[int, int]:
    """Map a whole open file, read-only: its address and size. The descriptor is needed no longer then."""
    size = os.fstat(fd).st_size
    if size == 0:
        return 0, 0
    return _mapped(size, mmap.PROT_READ, mmap.MAP_SHARED, fd), size


def map_copy(data: bytes) -> tuple[int, int]:
    """Bytes as a map of their own, which holds a copy of them."""
    if not data:
        return 0, 0
    address = _mapped(len(data), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    ctypes.memmove(address, data, len(data))
    return address, len(data)


def _mapped(size: int, protection: int, flags: int, fd: int) -> int:
    address: int = _libc.mmap(None, size, protection, flags, fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return address


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


def view(address: int, dtype: str, count: int) -> npt.NDArray[Any]:
    """A numpy array over mapped bytes. The caller keeps the map alive for as long as the array is used."""
    buffer = (ctypes.c_char * (np.dtype(dtype).itemsize * count)).from_address(address)
    array: npt.NDArray[Any] = np.frombuffer(memoryview(buffer), dtype=dtype, count=count)
    array.flags.writeable = False
    return array


def owned_view(address: int, size: int) -> Bytes:
    """The bytes of a map as an array that gives it back once nobody holds the array or a slice of it."""
    array = view(address, "u1", size)
    weakref.finalize(array.base.obj, unmap, address, size).atexit = False  # type: ignore[union-attr]
    return array
