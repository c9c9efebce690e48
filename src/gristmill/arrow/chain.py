"""What a data set was asked for, link by link, and the pass over it that this makes in an epoch.

Every link is done to what those before it give: `filter(even).take(5).shuffle(3)` shuffles five even rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol

from gristmill.arrow.files import ArrowFile, Piece, epoch_key, share_rows, shuffle_pieces
from gristmill.arrow.reading import Applied, Pass


class Link(Protocol):
    """One word of a data set."""

    @property
    def word(self) -> str:
        """What a state calls it."""

    def done(self, read: Pass, epoch: int) -> Pass: ...


Chain = tuple[Link, ...]


@dataclass(frozen=True)
class Shuffle:
    """The files in another order, and with `rows` the rows inside each of them; batches, once there are some."""

    seed: int
    rows: bool

    @property
    def word(self) -> str:
        return f"shuffle({self.seed}, rows={self.rows})"

    def done(self, read: Pass, epoch: int) -> Pass:
        batched = read.units is not None
        move = partial(shuffle_pieces, seed=self.seed, rows=self.rows or batched, epoch=epoch)
        return read.moved(move).mixed(epoch_key(self.seed, epoch)) if batched and self.rows else read.moved(move)


@dataclass(frozen=True)
class Window:
    """The first `count` examples (`take`), or all but these (`skip`); `found` by reading where filters decide it.

    `late` is one after a function: of these, versions before this counted other places, so their states are told apart.
    """

    kind: str
    count: int
    late: bool
    found: bool

    @property
    def word(self) -> str:
        return f"{self.kind}({self.count}{' examples' if self.late else ''})"

    def done(self, read: Pass, epoch: int) -> Pass:
        return read.window(self.kind, self.count)


@dataclass(frozen=True)
class Stretch:
    """The examples from share `low` to share `high` of all."""

    low: Fraction
    high: Fraction

    @property
    def word(self) -> str:
        return f"shard({self.low}, {self.high})"

    def done(self, read: Pass, epoch: int) -> Pass:
        return read.moved(partial(share_rows, low=self.low, high=self.high))


def planned(files: tuple[ArrowFile, ...], pieces: Sequence[Piece], chain: Chain, epoch: int) -> Pass:
    """The pass that the links make of files, one after the other."""
    read = Pass(files, tuple(pieces), unit_of(chain))
    for link in chain:
        read = link.done(read, epoch)
    return read


def unit_of(chain: Chain) -> int:
    """Rows that are read together for batched functions to see as many as they ask for; 1 where there are none.

    What follows a shuffle or a part of batches sees examples of one unit at most, since these have no neighbours.
    """
    sizes: list[int] = []
    for link in chain:
        if isinstance(link, Applied):
            sizes += [link.step.batch_size] if link.step.batch_size is not None else []
        elif sizes and not isinstance(link, Window):
            break
    return math.lcm(*sizes)
