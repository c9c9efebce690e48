"""SipHash-2-4 with the key 0: whoever wants other blocks with the same hash has to try 2^64."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.core.compiled import compiled

# SipHash's own constants: the state before the first block.
START = tuple(
    np.uint64(word) for word in (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
)
_13, _16, _17, _21, _32 = (np.uint64(bits) for bits in (13, 16, 17, 21, 32))
_43, _47, _48, _51 = (np.uint64(bits) for bits in (43, 47, 48, 51))


@compiled
def _round(a: Any, b: Any, c: Any, d: Any) -> Any:
    a += b
    b = (b << _13 | b >> _51) ^ a
    a = a << _32 | a >> _32
    c += d
    d = (d << _16 | d >> _48) ^ c
    a += d
    d = (d << _21 | d >> _43) ^ a
    c += b
    b = (b << _17 | b >> _47) ^ c
    c = c << _32 | c >> _32
    return a, b, c, d


@compiled
def add_block(a: Any, b: Any, c: Any, d: Any, block: Any) -> Any:
    """The state after one more block of 64 bits."""
    a, b, c, d = _round(*_round(a, b, c, d ^ block))
    return a ^ block, b, c, d


@compiled
def finish(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The hash of all blocks, the last of which tells how many bytes or letters there were."""
    a, b, c, d = _round(*_round(*_round(*_round(a, b, c ^ np.uint64(0xFF), d))))
    return a ^ b ^ c ^ d
