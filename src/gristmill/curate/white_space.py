"""White space in UTF-8 bytes as Python's `str` sees it, compiled. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from typing import Any

from gristmill.core.compiled import compiled
from gristmill.core.kernels.utf8 import character_start, decode
from gristmill.curate.characters import KIND, SPACE


@compiled
def skip_spaces(data: Any, begin: int, end: int, characters: Any) -> Any:
    """The first byte from `begin` on that is no white space."""
    while begin < end:
        code, size = decode(data, begin)
        if characters[code] & KIND != SPACE:
            break
        begin += size
    return begin


@compiled
def strip(data: Any, begin: int, end: int, characters: Any) -> Any:
    """The bounds of data[begin:end] without the white space around it: `str.strip`."""
    begin = skip_spaces(data, begin, end, characters)
    last = end
    while begin < end:
        last = character_start(data, last - 1)
        if characters[decode(data, last)[0]] & KIND != SPACE:
            break
        end = last
    return begin, end
