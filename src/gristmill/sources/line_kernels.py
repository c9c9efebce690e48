"""Where lines begin and end. Imports Numba: import when needed."""

from __future__ import annotations

from typing import Any

from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.memory import next_byte
from gristmill.core.kernels.types import BYTES

BREAK, RETURN = b"\n\r"
_TAB, _SPACE = b"\t "
_OUT = types.int64[::1]


@compiled
def is_filled(data: Any, at: int, end: int) -> Any:
    """Whether any byte is no blank: tab to carriage return, space."""
    while at < end and (data[at] == _SPACE or _TAB <= data[at] <= RETURN):
        at += 1
    return at < end


@entry(types.int64(BYTES, _OUT, _OUT, types.boolean[::1]))
def tabulate(data: Any, begins: Any, ends: Any, filled: Any) -> int:
    """How many lines there are; of as many as the arrays have room for, where they begin and end, and whether they are
    not blank.
    """
    count, at = 0, 0
    while at < data.size:
        end = next_byte(data, at, BREAK)
        if count < begins.size:
            begins[count], ends[count] = at, end - (end > at and data[end - 1] == RETURN)
            filled[count] = is_filled(data, at, end)
        count, at = count + 1, end + 1
    return count
