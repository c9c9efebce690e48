"""The types of arrays that kernels take; those in capitals without `OUT_` are read only, so that any array will do."""

from __future__ import annotations

from typing import Any

from numba import types


def _read_only(kind: Any) -> Any:
    return types.Array(kind, 1, "C", readonly=True)


BYTES, SHORTS, WORDS, HASHES = map(_read_only, (types.uint8, types.uint16, types.uint32, types.uint64))
FLOATS = _read_only(types.float64)
INTS, INTS32 = map(_read_only, (types.int64, types.int32))
