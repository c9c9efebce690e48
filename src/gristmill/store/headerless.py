"""Token files that do not say their dtype: it is found in their bytes, where these tell."""

from __future__ import annotations

import numpy as np

from gristmill.places.address import Address
from gristmill.store.files import SAMPLE_BYTES, spread_blocks

# If halves were tokens of their own, the largest 32 would all be first halves once in 2^32 files.
_ENOUGH = 32


def find_dtype(path: Address) -> str | None:
    """uint16, uint32 or uint64 by at most 256 KiB of a headerless file; None where its bytes do not tell.

    Ids leave the upper half of their bytes nearly empty. So items of n bytes are what the file holds, if many of their
    lower halves exceed every upper half: two neighbouring tokens that were taken for one item would not do that.
    """
    size, blocks = spread_blocks(path, SAMPLE_BYTES)
    sample = b"".join(dict(blocks).values())
    fitting = (itemsize for itemsize in (8, 4, 2) if size % itemsize == 0 and _holds(sample, itemsize))
    return next((f"uint{8 * itemsize}" for itemsize in fitting), None)


def _holds(sample: bytes, itemsize: int) -> bool:
    count = len(sample) // itemsize
    lower, upper = np.frombuffer(sample, f"<u{itemsize // 2}", 2 * count).reshape(-1, 2).T
    return count >= _ENOUGH and int(np.count_nonzero(lower > upper.max())) >= _ENOUGH
