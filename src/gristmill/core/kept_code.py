"""Machine code kept on disk, and used as long as no module that it was made from has changed.

Numba by itself looks at the file of the function alone, and would run old code after a change of a constant or a helper
in another file. It would also run what a damaged file holds, and not look into a folder that it may only read.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from gristmill.core.kept import keep, read_kept
from gristmill.core.kept_entries import code_name


class KeptCode(NullCache):  # type: ignore[misc]
    """What Numba asks for the code of one function, which has one signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._source = Path(function.__code__.co_filename)
        self._name = code_name(function.__module__, function.__qualname__)

    def load_overload(self, _signature: Any, target: Any) -> Any:
        """The code, or None."""
        rtsys.initialize(target)  # all that code which is there needs of Numba; the rest of it takes 0.3 s to load
        found = read_kept(self._source, self._name)
        return found and CompileResult._rebuild(target, *pickle.loads(found))  # of our own making, and whole

    def save_overload(self, _signature: Any, made: Any) -> None:
        """Keep the code, unless it holds an address of this process."""
        if not made.library.has_dynamic_globals:
            keep(self._source, self._name, dumps(made._reduce()))
