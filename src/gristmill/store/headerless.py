"""Token files that do not say their dtype: it is found in their bytes, where these tell."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from gristmill.places.base import read_at
from gristmill.places.door import place_at

_BLOCKS, _BLOCK_BYTES = 64, 4096
# If halves were tokens of their own, the largest 32 would all be first halves once in 2^32 files.
_ENOUGH = 32


def find_dtype(path: Path) -> str | None:
    """uint16, uint32 or uint64 by at most 256 KiB of a headerless file; None where its bytes do not tell.

    Ids leave the upper half of their bytes nearly empty. So items of n bytes are what the file holds, if many of their
    lower halves exceed every upper half: two neighbouring tokens that were taken for one item would not do that.
    """
    size, sample = place_at(path).size(), _sample(path)
    fitting = (itemsize for itemsize in (8, 4, 2) if size % itemsize == 0 and _holds(sample, itemsize))
    return next((f"uint{8 * itemsize}" for itemsize in fitting), None)


def _holds(sample: bytes, itemsize: int) -> bool:
    count = len(sample) // itemsize
    lower, upper = np.frombuffer(sample, f"<u{itemsize // 2}", 2 * count).reshape(-1, 2).T
    return count >= _ENOUGH and int(np.count_nonzero(lower > upper.max())) >= _ENOUGH


def _sample(path: Path) -> bytes:
    """64 evenly spread blocks of 4 KiB that begin at multiples of 4 KiB, or the whole of a small file."""
    with place_at(path).open(buffered=False) as file:
        blocks = -(-file.seek(0, os.SEEK_END) // _BLOCK_BYTES)
        starts = sorted({(blocks - 1) * i // (_BLOCKS - 1) * _BLOCK_BYTES for i in range(_BLOCKS)})
        return b"".join(read_at(file, start, _BLOCK_BYTES) for start in starts)
