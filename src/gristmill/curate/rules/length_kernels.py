"""Characters counted straight from UTF-8 bytes, compiled. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from typing import Any

from numba import int64, void

from gristmill.core.compiled import entry
from gristmill.core.kernels.types import BYTES, INTS


@entry(void(BYTES, INTS, int64[::1]))
def count_characters(data: Any, offsets: Any, counts: Any) -> None:
    """How many characters each document has: the bytes that begin one."""
    for row in range(counts.size):
        count = 0
        for at in range(offsets[row], offsets[row + 1]):
            count += data[at] & 0xC0 != 0x80
        counts[row] = count
