"""Machine code kept on disk, and used as long as no module that it was made from has changed.

Numba by itself looks at the file of the function alone, and would run old code after a change of a constant or a helper
in another file. It would also run what a damaged file holds, and not look into a folder that it may only read.
"""

from __future__ import annotations

import functools
import pickle
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from gristmill.core.hashing import hash64
from gristmill.core.kept import is_kept, keep, module_path, read_kept, text_of

_ENTRY = re.compile(r"^@entry\(.*?^def (\w+)", re.MULTILINE | re.DOTALL)


class KeptCode(NullCache):  # type: ignore[misc]
    """What Numba asks for the code of one function, which has one signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._source = Path(function.__code__.co_filename)
        self._name = _code_name(function.__module__, function.__qualname__)

    def load_overload(self, _signature: Any, target: Any) -> Any:
        """The code, or None."""
        target.refresh()
        found = read_kept(self._source, self._name)
        return found and CompileResult._rebuild(target, *pickle.loads(found))  # of our own making, and whole

    def save_overload(self, _signature: Any, made: Any) -> None:
        """Keep the code, unless it holds an address of this process."""
        if not made.library.has_dynamic_globals:
            keep(self._source, self._name, dumps(made._reduce()))


def missing_code(modules: Iterable[str]) -> list[str]:
    """Those of these modules that have an entry whose code is not kept; none of them is imported."""
    if numba.config.DISABLE_JIT:  # a debugger is at work
        return []
    return [module for module in modules if not all(_is_kept(module, entry) for entry in entries(module))]


def entries(module: str) -> list[str]:
    """The names of a module's entries, as its source has them."""
    return _ENTRY.findall(text_of(module_path(module)))


def _is_kept(module: str, entry: str) -> bool:
    return is_kept(module_path(module), _code_name(module, entry))


def _code_name(module: str, function: str) -> str:
    return f"{module}.{function}.{_machine()}"


@functools.cache
def _machine() -> str:
    """Names what runs the code: Python, Numba and the processor."""
    processor = cpu_target.target_context.codegen().magic_tuple()
    return f"{hash64(repr((sys.implementation.cache_tag, numba.__version__, processor))):016x}"
