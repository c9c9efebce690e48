"""Blocks made by processes of our own, for functions of the user's and tokenising beyond one core.

A lane is the matter of one process, which keeps its place in it and makes a block whenever it is asked for one. The
arrays of blocks come back in memory that both processes map.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gristmill.core.errors import ConfigError, SourceError
from gristmill.engine.partner import Asked, Partner
from gristmill.order.permute import use_compiled
from gristmill.streams.blocks import Block, Mill
from gristmill.streams.cuts import CUTS

if TYPE_CHECKING:
    from gristmill.streams.stream import Batches

# Room for a block: 1 MiB of text as bytes, which are two of ours each, and its tables. It is memory once it is used.
_SLOT_BYTES = 4 << 20
# Blocks of a lane that are made while one is read: with a single one processes were idle for 7 % of the time.
BLOCKS_AHEAD = 2
# What a process shares with us at most; blocks beyond it come through a pipe.
_SHARED_BYTES = 1 << 30


def mill_of(stream: Batches, k: int) -> Mill:
    """What makes the blocks of stream k of a mix."""
    own, first = stream.streams[k], stream.first
    kind = CUTS[str(first.cut)]
    # They have one vocabulary, so one encoder serves all; but a column of ids, which needs none, has its own.
    encoder = first.encoder if type(own.encoder) is type(first.encoder) else own.encoder
    return Mill(stream.units[k], stream.walk(k), own.steps, encoder, kind.table, first.seq_len, own.on_error,
                stream.rearranger(k))  # fmt: skip


class Crew:
    """`workers` processes that make the blocks of a stream, with the rows that rules dropped if `noted`."""

    def __init__(self, stream: Batches, workers: int, noted: bool) -> None:
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
        memory = _memory(stream, workers)
        self._partners: list[Partner[Block | None]] = [
            Partner(_begin, handed, stream.fingerprint, noted, **memory) for _ in range(workers)
        ]
        for partner in self._partners:
            partner.begun.result()

    def ask(self, k: int, lane: int, turn: int, number: int) -> Asked[Block | None]:
        """The next block of a lane, from block `number` of a turn on when it is asked for the first time."""
        return self._partners[lane % len(self._partners)].ask(k, lane, turn, number)

    def close(self) -> None:
        """Let the processes end."""
        for partner in self._partners:
            partner.close()


def _memory(stream: Batches, workers: int) -> dict[str, int]:
    """What a process shares with us: of each of its lanes a block just read, one that is read, and those to come."""
    size = _SLOT_BYTES * stream.hold
    lanes = -(-stream.batch_size // workers) * len(stream.streams)
    return {"slots": min((2 + BLOCKS_AHEAD) * lanes, _SHARED_BYTES // size), "slot_bytes": size}


class _Bench:
    """What a process of a crew works on."""

    def __init__(self, stream: Batches, noted: bool) -> None:
        self._noted = noted
        use_compiled()
        self._mills = [mill_of(stream, k) for k in range(len(stream.streams))]
        self._lanes: dict[tuple[int, int], Iterator[Block]] = {}

    def next(self, k: int, lane: int, turn: int, number: int) -> Block | None:
        if (k, lane) not in self._lanes:
            self._lanes[k, lane] = self._mills[k].blocks(lane, turn, number, noted=self._noted)
        return next(self._lanes[k, lane], None)


def _begin(handed: bytes, expected: str, noted: bool) -> Callable[[int, int, int, int], Block | None]:
    stream: Batches = pickle.loads(handed)  # which this program has pickled itself
    if stream.fingerprint != expected:
        raise SourceError("Files of the stream changed while its worker processes were started: start again.")
    return _Bench(stream, noted).next
