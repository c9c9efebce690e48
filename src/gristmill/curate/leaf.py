"""Compiled functions without reference counts. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

Function = Callable[..., Any]


def leaf(function: Function) -> Function:
    """`function` for the inner loops of other compiled functions: it may read and write arrays, but make none.

    Numba otherwise counts references to each array of each call, atomically: 5 ns a count, or half of the time of
    functions that look at one word.
    """
    made: Function = numba.njit(nogil=True, cache=True, _nrt=False)(function)
    return made
