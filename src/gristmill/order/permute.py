"""A keyed bijection on [0, n): a shuffle of any size that is computed, not stored.

A Feistel network over pairs (left, right) with right below a power of two of about √n and left below what is needed to
hold n, with cycle walking: indices that land outside [0, n) go round again, fewer than √n of them. Golden values in
the tests pin it: the order of a run must never change between versions.

    permute(3, 10, key) -> 7        unpermute(7, 10, key) -> 3
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Hashes, Ints
from gristmill.core.hashing import GOLDEN, MIX_FIRST, MIX_SECOND, mix64_array

ROUNDS = 8
_HALF = np.uint64(32)
_compiled: Callable[..., bool] | None = None


def permute(indices: npt.ArrayLike, n: int, key: npt.ArrayLike) -> Ints:
    """The places of `indices` (each in [0, n)) under the permutation named by `key`: one for all, or one each.

    Vectorised: 64 indices cost almost as much as 1,024, so ask for many at once.
    """
    return _walk(indices, n, key, range(ROUNDS))


def unpermute(places: npt.ArrayLike, n: int, key: npt.ArrayLike) -> Ints:
    """The inverse: `unpermute(permute(i, n, key), n, key) == i`."""
    return _walk(places, n, key, range(ROUNDS - 1, -1, -1))


def _walk(values: npt.ArrayLike, n: int, key: npt.ArrayLike, rounds: range) -> Ints:
    if n < 1 or n > 2**62:
        raise ValueError(f"permute works on 1 to 2^62 indices, not {n}")
    words = np.array(values, dtype=np.int64, order="C")
    shape, x = words.shape, words.reshape(-1).view(np.uint64)
    keys = np.array(key, dtype=np.uint64).reshape(-1)
    if _compiled is not None:
        if not _compiled(x, n, *halves(n), keys, rounds.step > 0):
            raise _outside(n)
        return words
    if x.size and x.max() >= np.uint64(n):  # which an index below 0 is, as a word
        raise _outside(n)
    # One key a round and column, by SplitMix64 from each given key.
    round_keys = mix64_array(keys[None, :] + GOLDEN * np.arange(ROUNDS, dtype=np.uint64)[:, None])
    x = _network(x, n, round_keys, rounds)
    outside = np.flatnonzero(x >= np.uint64(n))
    while outside.size:
        own_keys = round_keys[:, outside] if round_keys.shape[1] > 1 else round_keys
        x[outside] = _network(x[outside], n, own_keys, rounds)
        outside = outside[x[outside] >= np.uint64(n)]
    return x.view(np.int64).reshape(shape)


def _outside(n: int) -> ValueError:
    return ValueError(f"permute takes indices in [0, {n})")


def halves(n: int) -> tuple[np.uint64, np.uint64]:
    """Bits of the right half, and the size of the left one."""
    bits = (n - 1).bit_length() // 2
    return np.uint64(bits), np.uint64(-(-n >> bits))


def use_compiled() -> None:
    """Let Numba do it from now on in this process, with the same results: for loaders, which import it anyway."""
    global _compiled
    if _compiled is None:
        from gristmill.order.kernels import walk

        _compiled = walk


def uses_compiled() -> bool:
    """Whether Numba does it."""
    return _compiled is not None


def _network(x: Hashes, n: int, round_keys: Hashes, rounds: range) -> Hashes:
    """The rounds: even ones move left by a function of right (modulo its size), odd ones mix left into right."""
    right_bits, size = halves(n)
    right_mask = np.uint64((1 << int(right_bits)) - 1)
    left, right = x >> right_bits, x & right_mask
    for i in rounds:
        if i % 2:
            right ^= _scramble(left, round_keys[i]) & right_mask
        else:
            step = _scramble(right, round_keys[i]) * size >> _HALF
            left += step if rounds.step > 0 else size - step
            left -= size * (left >= size)
    left <<= right_bits
    left |= right
    return left


def _scramble(half: Hashes, key: Hashes) -> Hashes:
    """32 bits from the other half and the round's key."""
    h = half ^ key
    h *= MIX_FIRST
    h ^= h >> _HALF
    h *= MIX_SECOND
    h >>= _HALF
    return h
