"""Numba's compiler as one decorator. Importing this module imports Numba (0.2 s), so kernels are imported lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` in machine code, without the GIL, kept on disk after its first call on a machine."""
    made: Callable[..., Any] = numba.njit(nogil=True, cache=True)(function)
    return made
