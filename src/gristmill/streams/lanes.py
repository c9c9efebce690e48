"""Which units feed which row: the rows of the global batch are lanes, and row r of every batch is fed by lane r.

The units of all epochs stand in one endless line, those of each epoch in an order of its own; lane r of B takes places
r, r + B, r + 2B, ... of it. So no rank or worker is in it, every unit is read once an epoch, and a lane that ends one
epoch goes on with the next, however many lanes or units there are.

    3 units a, b, c and 2 lanes     lane 0: b  a' c' ...        one epoch: b c a, the next: a' b' c'
                                    lane 1: c  ...
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import cast

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import derive_key
from gristmill.order.permute import permute

# Places of units that are put in order at once: hundreds cost little more than one.
_TOGETHER = 256


@dataclass(frozen=True)
class Walk:
    """The way of `lanes` lanes through `units` units, `hold` of an epoch at a time; without a key in the files' order.

    `epochs` None goes on for ever. A turn of a lane is called by how many units the lane has passed before it.
    """

    units: int
    lanes: int
    key: int | None = None
    epochs: int | None = None
    hold: int = 1

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ConfigError("The stream has no files to read.")

    def turn(self, lane: int, turn: int) -> list[tuple[int, int]]:
        """The (epoch, unit) that a lane reads together in a turn, which ends with the epoch; none beyond the last."""
        epoch, first = divmod(lane + self.lanes * turn, self.units)
        if self.epochs is not None and epoch >= self.epochs:
            return []
        places = range(first, min(first + self.lanes * self.hold, self.units), self.lanes)
        return [(epoch, self._unit(epoch, place)) for place in places]

    def _unit(self, epoch: int, place: int) -> int:
        if self.key is None:
            return place
        return _order(self.key, epoch, self.units, place // _TOGETHER)[place % _TOGETHER]


@functools.lru_cache(maxsize=64)
def _order(key: int, epoch: int, units: int, part: int) -> list[int]:
    """Which units stand at some neighbouring places of an epoch: lanes come to them at about the same time."""
    places = np.arange(part * _TOGETHER, min((part + 1) * _TOGETHER, units))
    return cast(list[int], permute(places, units, _epoch_key(key, epoch)).tolist())


@functools.lru_cache(maxsize=64)
def _epoch_key(key: int, epoch: int) -> int:
    """Of the order of units in an epoch."""
    return derive_key(key, "units", epoch)
