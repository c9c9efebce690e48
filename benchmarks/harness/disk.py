"""What the disk alone gives: sequential reads, and random pages at a few queue depths."""

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

SEQUENTIAL_BLOCK = 1 << 20
PAGE = 4_096


def sequential(path: Path, seconds: float) -> float:
    """Bytes a second, from the file's beginning."""
    read, start = 0, time.perf_counter()
    with _opened(path, os.POSIX_FADV_SEQUENTIAL) as descriptor:
        while time.perf_counter() - start < seconds:
            got = len(os.pread(descriptor, SEQUENTIAL_BLOCK, read))
            if not got:
                break
            read += got
    return read / (time.perf_counter() - start)


def random_pages(path: Path, seconds: float, depth: int) -> float:
    """Bytes a second of single pages, no page twice, with `depth` reads under way at once."""
    pages = list(range(path.stat().st_size // PAGE))
    random.Random(depth).shuffle(pages)
    start = time.perf_counter()
    # FADV_RANDOM switches the kernel's read-ahead off: each read is one page from the disk.
    with _opened(path, os.POSIX_FADV_RANDOM) as descriptor, ThreadPoolExecutor(depth) as pool:
        parts = [pages[i::depth] for i in range(depth)]
        counts = pool.map(lambda part: _read_pages(descriptor, part, start + seconds), parts)
        return sum(counts) * PAGE / (time.perf_counter() - start)


def _read_pages(descriptor: int, pages: list[int], until: float) -> int:
    for count, page in enumerate(pages):
        if time.perf_counter() > until:
            return count
        os.pread(descriptor, PAGE, page * PAGE)
    return len(pages)


@contextmanager
def _opened(path: Path, advice: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, advice)
        yield descriptor
    finally:
        os.close(descriptor)
