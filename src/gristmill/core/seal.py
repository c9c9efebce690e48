"""JSON files that carry a sum of themselves: their last key, `sum`, is the xxh3-128 of every byte before its value."""

from __future__ import annotations

import json
from collections.abc import Mapping

import xxhash

SUM = "sum"
_KEY, _END = f' "{SUM}": "', '"\n}\n'
_TAIL = 32 + len(_END)


def sealed(values: Mapping[str, object]) -> str:
    """The text of a JSON file, with its sum as the last key."""
    before = json.dumps(values, indent=1).removesuffix("\n}") + ",\n" + _KEY
    return before + _sum(before.encode()) + _END


def is_sealed(data: bytes) -> bool:
    """Whether the bytes of a file are those that `sealed` made: one that differs anywhere is not."""
    before, tail = data[:-_TAIL], data[-_TAIL:]
    return before.endswith(_KEY.encode()) and tail == (_sum(before) + _END).encode()


def _sum(data: bytes) -> str:
    return str(xxhash.xxh3_128_hexdigest(data))
