"""The hashes that shape bytes and orders: xxh3 for content, SplitMix64 for keys.

They are ours to keep: a run's order and a store's fingerprint depend on them, so neither may change silently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import xxhash

_MASK = (1 << 64) - 1
# SplitMix64's increment (2^64 over the golden ratio) and the factors of its finaliser: Python's integers, and NumPy's.
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
GOLDEN, MIX_FIRST, MIX_SECOND = np.uint64(_GOLDEN), np.uint64(_FIRST), np.uint64(_SECOND)


def hash64(data: bytes | str) -> int:
    """xxh3-64 of bytes (text as UTF-8), unsigned."""
    return xxhash.xxh3_64_intdigest(data.encode() if isinstance(data, str) else data)


def hash_ids(ids: list[str]) -> npt.NDArray[np.uint64]:
    """xxh3-64 of each id's UTF-8: what documents are found by."""
    return np.array([hash64(text) for text in ids], dtype="<u8")


def mix64(x: int) -> int:
    """SplitMix64's finaliser: one 64-bit integer to another, bijectively."""
    x = (x + _GOLDEN) & _MASK
    x = ((x ^ (x >> 30)) * _FIRST) & _MASK
    x = ((x ^ (x >> 27)) * _SECOND) & _MASK
    return x ^ (x >> 31)


def mix64_array(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`mix64` of each."""
    x = values + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * MIX_FIRST
    x = (x ^ (x >> np.uint64(27))) * MIX_SECOND
    return np.asarray(x ^ (x >> np.uint64(31)))


def keyed_array(values: npt.NDArray[np.int64], key: int) -> npt.NDArray[np.uint64]:
    """A number for each value, by a key: those of another key are others, in another order."""
    return mix64_array(np.ascontiguousarray(values).view(np.uint64) ^ np.uint64(key))


def derive_key(*parts: int | str) -> int:
    """A 64-bit key from a path of names and numbers, e.g. (seed, 'web', epoch)."""
    return key_below(0, *parts)


def key_below(key: int, *parts: int | str) -> int:
    """The key of a path that goes on from the one of this key: `key_below(derive_key(a), b) == derive_key(a, b)`."""
    for part in parts:
        word = hash64(part) if isinstance(part, str) else part & _MASK
        key = mix64(key ^ mix64(word))
    return key


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def fingerprint(value: object) -> str:
    """32 hex digits that name a JSON value: the first half of its SHA-256."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:32]


def digest_of(values: Mapping[str, object], keys: Sequence[str]) -> str:
    """8 hex digits of what is under some keys: one wrong character there is told."""
    return fingerprint([str(values[key]) for key in keys])[:8]
