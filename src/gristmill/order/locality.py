"""A shuffle that reads each block of samples once: wide, and still near in the file.

An epoch is cut into blocks of B consecutive samples, and the blocks are permuted over the whole source. Round t of the
epoch then takes one sample of each *lane*: lane i takes block t - delay(i), with delays from 0 to W - 1 rising evenly.
So a round brings in one new block, lets go of one, and mixes samples of W blocks (of B, if that is less); which sample
of a block goes by which lane, and in which order a round serves its lanes, are permutations of their own. The first W
rounds grow and the last W shrink, since no block lies before the first or after the last one.

    rounds                0  1  2  3  4  5            4 blocks a, b, c, d of 3 samples, W = 3
    lane 0, delay 0       a  b  c  d  .  .
    lane 1, delay 1       .  a  b  c  d  .
    lane 2, delay 2       .  .  a  b  c  d

All of it is arithmetic on tables of W entries; `index_of` is the way back. Golden values pin it, as the permutation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gristmill.core.arrays import Hashes, Ints
from gristmill.core.cached import cached_property
from gristmill.core.hashing import derive_key, mix64_array
from gristmill.order.permute import halves, permute, unpermute, uses_compiled

Move = Callable[..., Ints]


@dataclass(frozen=True)
class Interleaving:
    """The order of `units` units in blocks of `block`, of which at most `window` are read at a time."""

    units: int
    block: int
    window: int

    @cached_property
    def _full(self) -> int:
        return self.units // self.block

    @cached_property
    def _blocks(self) -> int:
        return -(-self.units // self.block)

    @cached_property
    def _unused_lanes(self) -> int:
        """Lanes that the last block does not fill: its units go by the lanes after them."""
        return self._blocks * self.block - self.units

    @cached_property
    def _delays(self) -> Ints:
        return np.arange(self.block) * min(self.window, self._blocks) // self.block

    @cached_property
    def _ends(self) -> Ints:
        """For each lane the first round that has no block for it; they rise from lane to lane, as delays do."""
        return self._delays + self._blocks - (np.arange(self.block) < self._unused_lanes)

    @cached_property
    def _listed(self) -> Ints:
        """The rounds that grow, the first of those that have all lanes, and the rounds that shrink."""
        last = self._blocks - 1
        grown = min(int(self._delays[-1]) + 1, last)
        return np.concatenate((np.arange(grown + 1), np.arange(last, self._ends[-1])))

    @cached_property
    def _starts(self) -> Ints:
        """The place at which each listed round begins."""
        first, end = self._lanes(self._listed)
        return np.append(0, np.cumsum((end - first)[:-1] * np.diff(self._listed)))

    def _lanes(self, rounds: Ints) -> tuple[Ints, Ints]:
        """The first lane of each round, and the one after its last."""
        return np.searchsorted(self._ends, rounds, "right"), np.searchsorted(self._delays, rounds, "right")

    def units_at(self, key: int, index: Ints) -> Ints:
        """The units that an epoch takes at places `index`; `key` is the epoch's."""
        if uses_compiled():
            return self._compiled_units_at(key, index)
        entry = np.searchsorted(self._starts, index, "right") - 1
        more, offset = np.divmod(index - self._starts[entry], self.block)
        rounds = self._listed[entry] + more
        lanes = self._in_rounds(permute, key, rounds, self._lanes(rounds)[0] + offset)
        blocks = rounds - self._delays[lanes]
        return self._of_blocks(permute, key, blocks) * self.block + self._in_blocks(permute, key, blocks, lanes)

    def _compiled_units_at(self, key: int, index: Ints) -> Ints:
        """The same by one loop: where rounds grow, a lane goes on many times until it is in its round."""
        from gristmill.order.kernels import interleave  # which imports Numba

        units, keys = index.astype(np.int64).ravel(), [derive_key(key, name) for name in ("blocks", "inside", "rounds")]
        tables = self._starts, self._listed, self._delays, self._ends
        interleave(np.array(keys, dtype=np.uint64), self._sizes, *tables, self.block, self._full, units)
        return units.reshape(index.shape)

    @cached_property
    def _sizes(self) -> Hashes:
        """What is permuted, and its halves: full blocks, the lanes of one, and those of a short one."""
        sizes = max(self._full, 1), self.block, self.block - self._unused_lanes
        return np.array([[n, *halves(n)] for n in sizes], dtype=np.uint64)

    def index_of(self, key: int, units: Ints) -> Ints:
        """The places at which an epoch takes `units`: the inverse of `units_at`."""
        blocks, inside = np.divmod(units, self.block)
        blocks = self._of_blocks(unpermute, key, blocks)
        lanes = self._in_blocks(unpermute, key, blocks, inside)
        rounds = blocks + self._delays[lanes]
        offset = self._in_rounds(unpermute, key, rounds, lanes) - self._lanes(rounds)[0]
        entry = np.searchsorted(self._listed, rounds, "right") - 1
        index: Ints = self._starts[entry] + (rounds - self._listed[entry]) * self.block + offset
        return index

    def rounds_until(self, key: int, index: int, blocks: Ints) -> Ints:
        """Rounds from the one at place `index` on until blocks are read; 0 for those being read, -1 for what was."""
        entry = int(np.searchsorted(self._starts, index, "right")) - 1
        now = int(self._listed[entry] + (index - self._starts[entry]) // self.block)
        first = self._of_blocks(unpermute, key, np.minimum(blocks, self._blocks - 1))
        return np.where(first + self._delays[-1] < now, -1, np.maximum(first - now, 0))

    def _of_blocks(self, move: Move, key: int, blocks: Ints) -> Ints:
        """Permute (or back) the full blocks; a short one stays the last."""
        result, full = blocks.copy(), blocks < self._full
        if self._full:
            result[full] = move(blocks[full], self._full, derive_key(key, "blocks"))
        return result

    def _in_blocks(self, move: Move, key: int, blocks: Ints, places: Ints) -> Ints:
        """Lanes to units inside each block, or back."""
        keys, full = _keys(key, "inside", blocks), blocks < self._full
        result = np.empty_like(places)
        result[full] = move(places[full], self.block, keys[full])
        if not full.all():
            unused, forth = self._unused_lanes, move is permute
            short = move(places[~full] - unused * forth, self.block - unused, keys[~full])
            result[~full] = short + unused * (not forth)
        return result

    def _in_rounds(self, move: Move, key: int, rounds: Ints, lanes: Ints) -> Ints:
        """Permute (or back) the lanes of each round; one that is not in its round goes on until it is."""
        keys, (first, end) = _keys(key, "rounds", rounds), self._lanes(rounds)
        result, going = lanes.copy(), np.arange(len(lanes))
        while going.size:
            result[going] = move(result[going], self.block, keys[going])
            going = going[(result[going] < first[going]) | (result[going] >= end[going])]
        return result


def _keys(key: int, name: str, numbers: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """A key for each number."""
    return mix64_array(mix64_array(numbers.astype(np.uint64)) ^ np.uint64(derive_key(key, name)))
