"""Blocks made by processes of our own, for functions of the user's and tokenising beyond one core.

A process keeps its place in the lanes that it makes blocks of, and makes one whenever it is asked to. The arrays of
blocks come back in memory that both processes map.
"""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gristmill.core.errors import ConfigError, SourceError
from gristmill.engine.partner import Asked, Partner
from gristmill.order.permute import use_compiled
from gristmill.places.traffic import traffic
from gristmill.streams.blocks import Block, Mill
from gristmill.streams.cuts import CUTS
from gristmill.streams.turns import Place

if TYPE_CHECKING:
    from gristmill.streams.stream import Batches

# Room for a block: 1 MiB of text as bytes, which are two of ours each, and its tables. It is memory once it is used.
_SLOT_BYTES = 4 << 20
# Blocks of a lane that have come or are being made while one is read.
_BLOCKS_AHEAD = 2
# What a process shares with us at most, where all of it is used; blocks beyond it come through a socket.
_SHARED_BYTES = 1 << 30
# In place of a place: the lane goes on in another process.
_GONE = -1, -1


def mill_of(stream: Batches, k: int) -> Mill:
    """What makes the blocks of stream k of a mix."""
    own, first = stream.streams[k], stream.first
    kind = CUTS[str(first.cut)]
    # They have one vocabulary, so one encoder serves all; but a column of ids, which needs none, has its own.
    encoder = first.encoder if type(own.encoder) is type(first.encoder) else own.encoder
    return Mill(own.name, stream.units[k], stream.walk(k), own.steps, encoder, kind.table, first.seq_len, own.on_error,
                stream.rearranger(k))  # fmt: skip


class Crew:
    """`workers` processes that make the blocks of a stream, with the rows that rules dropped if `noted`.

    `first` are the lanes, of each stream of a mix, and where they are: each process begins with some of them.
    """

    def __init__(self, stream: Batches, workers: int, noted: bool, first: Sequence[Mapping[int, Place]]) -> None:
        if multiprocessing.current_process().daemon:
            raise ConfigError("A worker process of a DataLoader may start none itself: leave out workers=.")
        try:
            handed = pickle.dumps(stream)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"workers={workers} hands the stream's functions to other processes, and one of them cannot be "
                f"({error}): define it at the top of a module, or leave out workers=.",
                arguments="workers",
            ) from error
        self._first = first
        memory, shares = _memory(stream, workers), [_share(first, i, workers) for i in range(workers)]
        self._partners: list[Partner[Block | None]] = [
            Partner(_begin, handed, stream.fingerprint, noted, share, **memory) for share in shares
        ]
        self._own = {(k, lane): i for i, share in enumerate(shares) for k, lanes in enumerate(share) for lane in lanes}
        for partner in self._partners:
            partner.begun()

    def blocks(self, k: int, lane: int) -> Iterator[Block]:
        """The blocks of a lane, the next of which are always being made; the first is asked for now."""
        return _Lane(self._partners, self._partners[self._own[k, lane]], (k, lane), self._first[k][lane])

    def close(self) -> None:
        """Let the processes end."""
        for partner in self._partners:
            partner.close()


class _Lane(Iterator[Block]):
    """The blocks of a lane: some that have come, and one that is being made.

    A process that has less than half as much to do as the one that made the last block goes on with the lane, where
    that takes no second reading. Who takes the blocks shares a core with one of those that make them, now with this one
    and now with that: bound to their lanes, the others would wait.
    """

    def __init__(
        self,
        partners: Sequence[Partner[Block | None]],
        first: Partner[Block | None],
        name: tuple[int, int],
        place: Place,
    ) -> None:
        self._partners, self._partner, self._name = partners, first, name
        self._asked: deque[Asked[Block | None]] = deque()
        self._last: Block | None = None  # until a block behind it is asked for
        self._ask(place)

    def __next__(self) -> Block:
        if self._asked and not self._asked[0].told:
            for partner in self._partners:
                partner.glance()
        block = self._asked.popleft().result() if self._asked else None
        if block is None:
            raise StopIteration
        self._ask_more()
        return block

    def _heard(self, block: Block | None) -> None:
        self._last = block
        self._ask_more()

    def _ask_more(self) -> None:
        """Ask for another block, if the last one has come and too few are there."""
        last = self._last
        if last is None or len(self._asked) >= _BLOCKS_AHEAD:
            return
        self._last, place = None, None
        freest = min(self._partners, key=lambda partner: partner.left)
        # After blocks without tokens it stays where these are counted.
        if last.after and len(last.tokens) and 2 * freest.left < self._partner.left:
            self._partner.ask(*self._name, _GONE)
            self._partner, place = freest, last.after
        self._ask(place)

    def _ask(self, place: Place | None) -> None:
        self._asked.append(self._partner.ask(*self._name, place, heard=self._heard))


def _share(first: Sequence[Mapping[int, Place]], number: int, workers: int) -> list[dict[int, Place]]:
    """The lanes that a process begins with: every so many of each stream's."""
    return [
        dict(itertools.islice(lanes.items(), (number + k) % workers, None, workers)) for k, lanes in enumerate(first)
    ]


def _memory(stream: Batches, workers: int) -> dict[str, int]:
    """What a process shares with us: of each of its lanes a block just read, one that is read, and those to come."""
    size = _SLOT_BYTES * stream.hold
    lanes = -(-stream.batch_size // workers) * len(stream.streams)
    return {"slots": min((2 + _BLOCKS_AHEAD) * lanes, _SHARED_BYTES // size), "slot_bytes": size}


class _Bench:
    """What a process of a crew works on."""

    def __init__(self, stream: Batches, noted: bool, first: Sequence[Mapping[int, Place]]) -> None:
        self._noted, self._traffic = noted, dict[str, int]()
        self._fetches = any(units.waits for units in stream.units)
        use_compiled()
        self._mills = [mill_of(stream, k) for k in range(len(stream.streams))]
        for mill, lanes in zip(self._mills, first, strict=True):
            mill.begin(lanes)
        self._lanes: dict[tuple[int, int], Iterator[Block]] = {}

    def next(self, k: int, lane: int, place: Place | None = None) -> Block | None:
        """The next block of a lane, at `place` or after the last one; none of a lane that has gone."""
        if place == _GONE:
            self._lanes.pop((k, lane), None)
            return None
        if place is not None:
            self._lanes[k, lane] = self._mills[k].blocks(lane, *place, noted=self._noted)
        block = next(self._lanes[k, lane], None)
        return self._with_traffic(block) if block and self._fetches else block

    def _with_traffic(self, block: Block) -> Block:
        fetched = traffic.since(self._traffic)
        if not any(fetched.values()):
            return block
        self._traffic = traffic.figures()
        return replace(block, fetched=fetched)


def _begin(
    handed: bytes, expected: str, noted: bool, first: Sequence[Mapping[int, Place]]
) -> Callable[..., Block | None]:
    stream: Batches = pickle.loads(handed)  # which this program has pickled itself
    if stream.fingerprint != expected:
        raise SourceError("Files of the stream changed while its worker processes were started: start again.")
    return _Bench(stream, noted, first).next
