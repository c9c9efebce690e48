"""Numba's compiler as three decorators. Importing this module imports Numba (0.2 s), so kernels are imported lazily.

Machine code is kept on disk, and is used as long as no module that it was made from has changed. Numba by itself looks
at the file of the function alone, and would run old code after a change of a constant or a helper in another file.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core import entrypoints

from gristmill.core.hashing import hash64

Function = Callable[..., Any]

_ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(r"^from (gristmill[\w.]*) import", re.MULTILINE)


def compiled(function: Function) -> Function:
    """`function` in machine code for the use of other compiled functions."""
    return _kept(numba.njit(nogil=True, cache=True)(function))


def leaf(function: Function) -> Function:
    """`function` for the inner loops of other compiled functions: it may read and write arrays, but make none.

    Numba otherwise counts references to each array of each call, atomically: 5 ns a count, or half of the time of
    functions that look at one word.
    """
    return _kept(numba.njit(nogil=True, cache=True, _nrt=False)(function))


def entry(signature: Any) -> Callable[[Function], Function]:
    """A compiled function that Python calls: for one signature only, without the GIL.

    It is compiled when its module is first imported on a machine, and read from disk afterwards. Arrays of any other
    layout are a TypeError rather than a second compilation in the middle of a run.
    """

    def decorate(function: Function) -> Function:
        made: Any = compiled(function)
        if made is not function:
            with _no_extensions():
                made.compile(signature)
            made.disable_compile()
        return made  # type: ignore[no-any-return]

    return decorate


def _kept(made: Any) -> Function:
    """Let the code on disk be used if all its sources are as they were."""
    if numba.config.DISABLE_JIT:  # a debugger is at work, and Numba gives the function back as it is
        return made  # type: ignore[no-any-return]
    made._cache._cache_file._source_stamp = _stamp(Path(made.py_func.__code__.co_filename))
    return made  # type: ignore[no-any-return]


@functools.cache
def _stamp(path: Path) -> str:
    """Names the content of a module and of all of ours that it imports at its top, directly or not."""
    found, waiting = set[Path](), [path]
    while waiting:
        if (source := waiting.pop()) not in found:
            found.add(source)
            waiting += [_module(name) for name in _IMPORT.findall(_text(source))]
    return f"{hash64(''.join(map(_text, sorted(found)))):016x}"


def _module(name: str) -> Path:
    base = _ROOT.joinpath(*name.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


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
