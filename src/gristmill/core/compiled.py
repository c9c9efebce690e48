"""Numba's compiler as three decorators. Importing this module imports Numba (0.2 s), so kernels are imported lazily."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba.core import entrypoints

Function = Callable[..., Any]


def compiled(function: Function) -> Function:
    """`function` in machine code for the use of other compiled functions."""
    made: Function = numba.njit(nogil=True, cache=True)(function)
    return made


def leaf(function: Function) -> Function:
    """`function` for the inner loops of other compiled functions: it may read and write arrays, but make none.

    Numba otherwise counts references to each array of each call, atomically: 5 ns a count, or half of the time of
    functions that look at one word.
    """
    made: Function = numba.njit(nogil=True, cache=True, _nrt=False)(function)
    return made


def entry(signature: Any) -> Callable[[Function], Function]:
    """A compiled function that Python calls: for one signature only, without the GIL.

    It is compiled when its module is first imported on a machine, and read from disk afterwards. Arrays of any other
    layout are a TypeError rather than a second compilation in the middle of a run.
    """

    def decorate(function: Function) -> Function:
        with _no_extensions():
            made: Function = numba.njit(signature, nogil=True, cache=True)(function)
        return made

    return decorate


@contextlib.contextmanager
def _no_extensions() -> Iterator[None]:
    """Keep Numba from importing every package that registers with it: awkward, which gigatoken brings, takes 0.4 s.

    They are still found by the first compilation outside of this block.
    """
    before = getattr(entrypoints, "_already_initialized", True)
    entrypoints._already_initialized = True
    try:
        yield
    finally:
        entrypoints._already_initialized = before
