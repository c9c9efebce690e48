"""Memory for batches, used again once nobody holds it: a fresh page costs more than the tokens written into it.

Writing 1 MiB of int64 into fresh pages takes about 60 microseconds here, into warm ones 25. An array counts as free
when only the pool refers to it: every view, tensor or DLPack capsule made from it holds a reference to it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.core.locks import Lock

# The pool's own list, the loop variable and getrefcount's argument.
_UNSHARED = 3


class Buffers:
    """At most `keep` arrays of each shape and dtype; beyond that, plain new ones."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._lock = Lock()
        self._arrays: dict[tuple[Any, ...], list[npt.NDArray[Any]]] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """An array with whatever content, that no one else uses."""
        with self._lock:
            arrays = self._arrays.setdefault((name, shape, dtype), [])
            for array in arrays:
                if sys.getrefcount(array) == _UNSHARED:
                    return array[:]
            array = np.empty(shape, dtype=dtype)
            if len(arrays) < self._keep:
                arrays.append(array)
            return array[:]
