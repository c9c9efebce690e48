"""Numba's compiler as three decorators. Importing this module imports Numba (0.2 s), so kernels are imported lazily.

Machine code is kept on disk, and is used as long as no module that it was made from has changed. Numba by itself looks
at the file of the function alone, and would run old code after a change of a constant or a helper in another file. It
would also run what a damaged file holds: kept files carry a sum, and one that does not have it is compiled anew.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import xxhash
from numba.core import entrypoints
from numba.core.caching import IndexDataCacheFile

from gristmill.core.hashing import hash64

Function = Callable[..., Any]

_SUM = 16
_ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(r"^from (gristmill[\w.]*) import", re.MULTILINE)


def compiled(function: Function) -> Function:
    """`function` in machine code for the use of other compiled functions."""
    return _kept(function)


def leaf(function: Function) -> Function:
    """`function` for the inner loops of other compiled functions: it may read and write arrays, but make none.

    Numba otherwise counts references to each array of each call, atomically: 5 ns a count, or half of the time of
    functions that look at one word.
    """
    return _kept(function, _nrt=False)


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


def _kept(function: Function, **options: Any) -> Function:
    """`function` compiled; the code on disk is used if it is whole and all its sources are as they were."""
    try:
        made: Any = numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError as error:  # there is no folder to keep code in
        _warn_once(str(error))
        return numba.njit(nogil=True, **options)(function)  # type: ignore[no-any-return]
    if numba.config.DISABLE_JIT:  # a debugger is at work, and Numba gives the function back as it is
        return made  # type: ignore[no-any-return]
    cache = made._cache
    stamp = _stamp(Path(made.py_func.__code__.co_filename))
    cache._cache_file = _KeptCode(cache.cache_path, f"{cache._impl.filename_base}.summed", stamp)
    # A full or read-only disk is no reason to stop: the code is there, if only in memory.
    cache._guard_against_spurious_io_errors = functools.partial(contextlib.suppress, OSError)
    return made  # type: ignore[no-any-return]


@functools.cache
def _warn_once(why: str) -> None:
    warnings.warn(
        f"Compiled code cannot be kept ({why}): every start takes longer by half a minute. Set NUMBA_CACHE_DIR to a "
        "folder that can be written.",
        stacklevel=2,
    )


class _KeptCode(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's index and data files, each behind the xxh3-128 of its content."""

    def _load_index(self) -> dict[Any, str]:
        content = _whole(self._index_path)
        if content is None:
            return {}
        version, stamp, overloads = pickle.loads(content)  # of our own making, and whole
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._save(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        content = _whole(self._data_path(name))
        if content is None:
            raise FileNotFoundError(name)
        return pickle.loads(content)

    def _save_data(self, name: str, data: Any) -> None:
        self._save(self._data_path(name), data)

    def _save(self, path: str, value: Any) -> None:
        content = self._dump(value)
        with self._open_for_write(path) as file:
            file.write(xxhash.xxh3_128_digest(content) + content)


def _whole(path: str) -> bytes | None:
    """What was written behind a sum; None if there is no such file, or another content."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    return data[_SUM:] if xxhash.xxh3_128_digest(data[_SUM:]) == data[:_SUM] else None


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
