"""In which order the epochs of a source take its samples.

An epoch is a permutation of *units*. Where sequences are shorter than the plan's unit (chunk only), each unit holds
several of them; 64 permuted units make a block, whose sequences are permuted among themselves. So a change of seq_len
at a block's end loses nothing, and one in the middle leaves under a block unread. With `locality` the units are not
permuted over the whole source at once but as `order/locality.py` tells.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.hashing import derive_key
from gristmill.order.locality import Interleaving
from gristmill.order.permute import permute, unpermute

UNITS_PER_BLOCK = 64


@dataclass(frozen=True)
class EpochOrder:
    """The order in which the epochs of one source take its samples: `units` units of `parts` sequences each."""

    key: int
    units: int
    parts: int
    shuffle: bool
    locality: Interleaving | None = None

    @property
    def samples(self) -> int:
        """Samples of one epoch."""
        return self.units * self.parts

    def samples_at(self, epoch: int, index: Ints) -> Ints:
        """The samples that the epoch takes at places `index`."""
        if not self.shuffle:
            return index
        if self.parts == 1:
            return self._units_at(epoch, index)
        block, inside = np.divmod(index, UNITS_PER_BLOCK * self.parts)
        inside = self._in_blocks(permute, epoch, block, inside)
        unit = self._units_at(epoch, block * UNITS_PER_BLOCK + inside // self.parts)
        return unit * self.parts + inside % self.parts

    def index_of(self, epoch: int, samples: Ints) -> Ints:
        """The places at which the epoch takes `samples`: the inverse of `samples_at`."""
        if not self.shuffle:
            return samples
        unit, part = np.divmod(samples, self.parts)
        key = _epoch_key(self.key, epoch)
        unit = self.locality.index_of(key, unit) if self.locality else unpermute(unit, self.units, key)
        if self.parts == 1:
            return unit
        block, inside = np.divmod(unit, UNITS_PER_BLOCK)
        inside = self._in_blocks(unpermute, epoch, block, inside * self.parts + part)
        return block * UNITS_PER_BLOCK * self.parts + inside

    def waits(self, epoch: int, index: int, blocks: Ints) -> Ints:
        """About how many samples the epoch takes after place `index` before it reads a block of its locality; or -1."""
        assert self.locality is not None
        rounds = self.locality.rounds_until(_epoch_key(self.key, epoch), index // self.parts, blocks)
        return np.where(rounds < 0, -1, rounds * self.locality.block * self.parts)

    def _units_at(self, epoch: int, index: Ints) -> Ints:
        key = _epoch_key(self.key, epoch)
        return self.locality.units_at(key, index) if self.locality else permute(index, self.units, key)

    def _in_blocks(self, move: Callable[..., Ints], epoch: int, block: Ints, inside: Ints) -> Ints:
        """Permute (or back) the places inside each block; the last block of an epoch may be shorter."""
        result = np.empty_like(inside)
        distinct, which = np.unique(block, return_inverse=True)
        epoch_key = _epoch_key(self.key, epoch)
        keys = np.array([derive_key(epoch_key, int(b)) for b in distinct], dtype=np.uint64)[which.reshape(-1)]
        whole = (block + 1) * UNITS_PER_BLOCK <= self.units
        for size, here in ((UNITS_PER_BLOCK, whole), (self.units % UNITS_PER_BLOCK, ~whole)):
            if here.any():
                result[here] = move(inside[here], size * self.parts, keys[here])
        return result


@functools.lru_cache(maxsize=256)
def _epoch_key(key: int, epoch: int) -> int:
    return derive_key(key, epoch)
