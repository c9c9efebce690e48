"""Token files that do not say their dtype: it is found in their bytes where these tell, else asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.store.opening import LLM_C, PathLike, named_paths, open_store
from gristmill.store.reader import Store

_BLOCKS, _BLOCK_BYTES = 64, 4096
# If halves were tokens of their own, the largest 32 would all be first halves once in 2^32 files.
_ENOUGH = 32


def open_tokens(path: PathLike | Sequence[PathLike], dtype: str | None = None) -> Store:
    """Open whatever `gristmill.open` opens; the dtype of files without a header need not be given if they tell it."""
    if dtype is None:
        dtype = next((_must_find(item) for item in named_paths(path) if item.is_file() and not _has_header(item)), None)
    return open_store(path, dtype)


def _has_header(path: Path) -> bool:
    """Whether a `.npy` header, an llm.c header or a Megatron index says what the tokens are."""
    with open(path, "rb") as file:
        head = file.read(6)
    if head == np.lib.format.MAGIC_PREFIX or int.from_bytes(head[:4], "little") in LLM_C:
        return True
    return path.suffix == ".idx" or (path.suffix == ".bin" and path.with_suffix(".idx").exists())


def _must_find(path: Path) -> str | None:
    if not path.stat().st_size:
        return None  # opening it says so
    found = find_dtype(path)
    if found is None:
        raise ConfigError(
            f'{path} has no header, and its bytes do not tell the dtype: say dtype="uint16", "int32" or what it is.'
        )
    return found


def find_dtype(path: Path) -> str | None:
    """uint16, uint32 or uint64 by at most 256 KiB of a headerless file; None where its bytes do not tell.

    Ids leave the upper half of their bytes nearly empty. So items of n bytes are what the file holds, if many of their
    lower halves exceed every upper half: two neighbouring tokens that were taken for one item would not do that.
    """
    size, sample = path.stat().st_size, _sample(path)
    fitting = (itemsize for itemsize in (8, 4, 2) if size % itemsize == 0 and _holds(sample, itemsize))
    return next((f"uint{8 * itemsize}" for itemsize in fitting), None)


def _holds(sample: bytes, itemsize: int) -> bool:
    count = len(sample) // itemsize
    lower, upper = np.frombuffer(sample, f"<u{itemsize // 2}", 2 * count).reshape(-1, 2).T
    return count >= _ENOUGH and int(np.count_nonzero(lower > upper.max())) >= _ENOUGH


def _sample(path: Path) -> bytes:
    """64 evenly spread blocks of 4 KiB that begin at multiples of 4 KiB, or the whole of a small file."""
    with open(path, "rb") as file:
        blocks = -(-os.fstat(file.fileno()).st_size // _BLOCK_BYTES)
        starts = sorted({(blocks - 1) * i // (_BLOCKS - 1) * _BLOCK_BYTES for i in range(_BLOCKS)})
        return b"".join(os.pread(file.fileno(), _BLOCK_BYTES, start) for start in starts)
