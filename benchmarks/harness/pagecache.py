"""Pages of a file in the kernel's cache: throw them out, and see that they are gone."""

import ctypes
import mmap
import os
from pathlib import Path

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)


def evict(path: Path) -> None:
    """Write the file's dirty pages and drop all that no process maps."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def resident(path: Path) -> float | None:
    """The share of the file's pages that are in memory, or None where the kernel does not say."""
    mapped = np.memmap(path, dtype=np.uint8, mode="r")  # mapping alone reads nothing
    pages = np.zeros(-(-mapped.size // mmap.PAGESIZE), dtype=np.uint8)
    address, length = ctypes.c_void_p(mapped.ctypes.data), ctypes.c_size_t(mapped.size)
    if _libc.mincore(address, length, pages.ctypes.data_as(ctypes.c_void_p)):
        return None
    return float((pages & 1).mean())
