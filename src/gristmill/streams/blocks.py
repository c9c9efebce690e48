"""Blocks: the documents that a lane reads together, through all steps, as tokens; about 1 MiB of text each.

A block is a pure function of (stream, lane, turn, number), and its documents are shuffled among themselves. What a unit
holds beyond one block comes in further ones, so that a large file that cannot be cut is held a block at a time.
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints, Mask
from gristmill.core.cached import cached_property
from gristmill.core.errors import SourceError
from gristmill.core.hashing import derive_key, key_below
from gristmill.core.texts import Texts
from gristmill.curate.chain import EMPTY
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import READ, Ledger, start_documents, step_names
from gristmill.order.permute import permute
from gristmill.sources.base import Mishaps
from gristmill.streams.augment import Rearranger
from gristmill.streams.lanes import Walk
from gristmill.streams.rows import Rows, Table
from gristmill.streams.steps import Step, drop, drop_empty
from gristmill.streams.turns import Place
from gristmill.streams.units import Cut
from gristmill.tokenize.backends import Ids, ended, without_eos
from gristmill.tokenize.tokenizer import Tokenizer

TOKENIZE = "tokenize"
# Building takes 0.4 s: threads wait for twice of it, since those of a first batch of 64 rows wait for 0.4 s in all.
_PATIENCE_SECONDS, _BUILDING_SECONDS = 0.2, 0.8
_CORES = os.cpu_count() or 1  # asking takes 80 microseconds
# The (epoch, unit) that a lane reads together.
Stops = list[tuple[int, int]]


class Unread(NamedTuple):
    """How many documents and files could not be read, the first of them named, and what held no documents.

    `again` are documents that were read a second time, to come to where a lane was.
    """

    skipped: int
    named: list[str]
    ignored: int
    empty: int
    again: int = 0


# What nearly every block has to tell.
ALL_READ = Unread(0, [], 0, 0)


@dataclass(frozen=True, eq=False)
class Block:
    """Documents end to end, EOS after each: document i is tokens[offsets[i]:offsets[i + 1]].

    `rows` are its rows, where they are not stretches that go on in the next block. `ledger` says what the steps did on
    the way, `unread` what could not be read.
    """

    turn: int
    number: int
    epoch: int
    unit: int
    tokens: Ids
    offsets: Ints
    rows: Rows | None
    ledger: Ledger
    unread: Unread

    @cached_property
    def told(self) -> Ints:
        """Of each of its rows the lane's place after it (turn, block, rows), its epoch and its unit."""
        assert self.rows is not None
        told = np.empty((len(self.rows), 5), np.int64)
        told[:] = self.turn, self.number, 0, self.epoch, self.unit
        told[:, 2] = np.arange(1, len(told) + 1)
        return told

    def __reduce__(self) -> tuple[object, ...]:
        """For another process, in three arrays where there are seven: each takes a dozen calls on both sides."""
        numbers, rows = (self.turn, self.number, self.epoch, self.unit), self.rows
        columns = [self.offsets, *((rows.edges, rows.positions, rows.lengths, rows.truncated) if rows else ())]
        sizes, follows = [len(column) for column in columns], rows.follows if rows else None
        return _arrived, (numbers, self.tokens, np.concatenate(columns), sizes, follows, self.ledger, self.unread)

    @cached_property
    def address(self) -> int:
        """Where its tokens lie in memory."""
        return int(self.tokens.__array_interface__["data"][0])

    @cached_property
    def pointers(self) -> Ints:
        """The byte at which each document begins, as an index of a shard has them."""
        return np.ascontiguousarray(self.offsets[:-1] * self.tokens.itemsize)


def _arrived(
    numbers: tuple[int, int, int, int],
    tokens: Ids,
    table: Ints,
    sizes: list[int],
    follows: Mask | None,
    ledger: Ledger,
    unread: Unread,
) -> Block:
    """A block of another process: `table` has its offsets and the columns of its rows end to end, of these sizes."""
    ends = itertools.accumulate(sizes)
    offsets, *columns = [table[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    rows = None
    if follows is not None:
        edges, positions, lengths, truncated = columns
        rows = Rows(edges, positions, lengths, follows, truncated)
    return Block(*numbers, tokens, offsets, rows, ledger, unread)


class Mill:
    """Makes the blocks of a stream. Safe to call from many threads."""

    def __init__(
        self,
        units: Cut,
        walk: Walk,
        steps: Sequence[Step],
        tokenizer: Tokenizer,
        table: tuple[Table] | None,
        seq_len: int,
        on_error: str,
        rearranger: Rearranger | None,
    ) -> None:
        self._rearranger = rearranger
        self._reader, self._walk, self._steps = units.reader(walk.hold), walk, _named(steps)
        self._encoders, self._table, self._seq_len, self._on_error = encoders(tokenizer), table, seq_len, on_error

    def begin(self, turns: Mapping[int, int]) -> None:
        """Hear at which turn each lane will begin, so that what they read first can be read together."""
        self._reader.begin({place: _units(self._walk.turn(*place)) for place in turns.items()})

    def blocks(self, lane: int, turn: int = 0, number: int = 0, *, noted: bool = True) -> Iterator[Block]:
        """The blocks of a lane from block `number` of a turn on, until the walk ends; with the rows that left if noted.

        A lane that meets no token in as many units as there are would go on for ever: it is an error.
        """
        silent, after = 0, self._walk.turn(lane, turn)
        for stop in itertools.count(turn):
            wanted, after = after, self._walk.turn(lane, stop + 1)
            if not wanted:
                return
            silent += len(wanted)
            for block in self._of_turn((lane, stop), wanted, after, number if stop == turn else 0, noted):
                silent = 0 if len(block.tokens) else silent
                yield block
            if silent >= max(self._walk.units, self._walk.hold) and self._walk.epochs is None:
                raise SourceError(
                    f"Row {lane} of the batch has read {silent:,} units of files in a row without a document that is "
                    "left: loosen the filters, or name files with text."
                )

    def _of_turn(self, place: Place, wanted: Stops, after: Stops, first: int, noted: bool) -> Iterator[Block]:
        """The blocks of some units from the one called `first` on; `after` are the lane's next.

        Those before it that had to be read are passed over, neither judged nor encoded, and counted. What could not be
        read after the last document comes with a block of none.
        """
        told = _Told(Mishaps(self._on_error))
        held = self._reader.turn(place, _units(wanted), _units(after))
        number = again = 0
        for number, batch in held.blocks(first, told.mishaps):
            unread = told.since(again)
            if number < first:
                again += len(batch)
            else:
                yield self._made(batch, Ledger(noted=noted), place[1], number, *wanted[0], unread)
                again = 0
        if any(unread := told.since(again)):
            none = np.empty(0, self._encoders.dtype), np.zeros(1, np.int64)
            rows = self._table[0](none[1], self._seq_len, None) if self._table else None
            yield Block(place[1], number, *wanted[0], *none, rows, Ledger(), unread)

    def _made(
        self, batch: pa.RecordBatch, ledger: Ledger, turn: int, number: int, epoch: int, unit: int, unread: Unread
    ) -> Block:
        documents = start_documents(batch, 0)
        ledger.count(READ, documents)
        for name, step in self._steps.items():
            documents = step.run(documents, ledger, name)
        documents = drop_empty(documents, ledger)
        ids, offsets = self._encoded(documents, (epoch, unit, number))
        order, key = np.arange(len(documents)), None
        if self._walk.key is not None:
            key = key_below(_blocks_key(self._walk.key), epoch, unit, number)
            order = permute(order, max(len(documents), 1), key)
        tokens, bounds = _laid(ids, offsets, order)
        if len(bounds) == len(offsets):
            ledger.pass_all(TOKENIZE, documents)
        else:
            drop(TOKENIZE, np.diff(offsets) == 1, documents, ledger, "no_tokens")
        rows = self._table[0](bounds, self._seq_len, key) if self._table else None
        return Block(turn, number, epoch, unit, tokens, bounds, rows, ledger, unread)

    def _encoded(self, documents: Documents, place: tuple[int, int, int]) -> tuple[Ids, Ints]:
        """Ids end to end, the EOS after each document, and offsets."""
        if self._rearranger is None:
            return self._encoders.encode(documents)
        encode = self._encoders.encode
        found = self._rearranger.encode(documents.batch, place, lambda texts: without_eos(*encode(texts)))
        return ended(*found, self._encoders.eos)


def _laid(ids: Ids, offsets: Ints, order: Ints) -> tuple[Ids, Ints]:
    """The documents that have tokens in this order, end to end, and where each begins."""
    from gristmill.streams.row_kernels import lay_documents  # which imports Numba

    out, bounds = np.empty_like(ids), np.empty(len(offsets), np.int64)
    count = lay_documents(ids.view(np.uint8), offsets, ids.itemsize, order, out.view(np.uint8), bounds)
    return out[: bounds[count]], bounds[: count + 1]


@functools.lru_cache(maxsize=16)
def _blocks_key(key: int) -> int:
    """What the keys of all blocks begin with."""
    return derive_key(key, "block")


def _units(stops: Stops) -> list[int]:
    return [unit for _, unit in stops]


def _named(steps: Sequence[Step]) -> dict[str, Step]:
    """Steps by names of their own, which what a stream does by itself has not."""
    own = (READ, EMPTY, TOKENIZE)
    return dict(zip(step_names([*own, *(step.name for step in steps)])[len(own) :], steps, strict=True))


class _Told:
    """What happened to what could not be read since somebody last asked."""

    def __init__(self, mishaps: Mishaps) -> None:
        self.mishaps, self._counts, self._named = mishaps, (0, 0, 0), 0

    def since(self, again: int) -> Unread:
        """What is new, and documents read again; the first five mishaps of a turn are named."""
        mishaps, before = self.mishaps, self._counts
        if not (again or mishaps.by_file or mishaps.ignored or mishaps.empty):
            return ALL_READ
        self._counts = mishaps.skipped, mishaps.ignored.total(), len(mishaps.empty)
        named, self._named = mishaps.examples[self._named :], len(mishaps.examples)
        skipped, ignored, empty = (now - then for now, then in zip(self._counts, before, strict=True))
        return Unread(skipped, named, ignored, empty, again)


class Encoders:
    """A tokenizer for many threads: each uses one for itself, and what is idle serves the next.

    A further one takes 0.4 s to build, a block 4 ms to encode: so threads wait for their turn until they have waited,
    in all, twice as long as building one takes, and no first batch waits for it. Once there is one a core they still do
    not wait for ever, since the threads that had them may be those of a process that this one is a fork of.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._pickled, self.eos, self.dtype = pickle.dumps(tokenizer), tokenizer.eos, tokenizer.dtype
        self._idle: SimpleQueue[Tokenizer] = SimpleQueue()
        self._idle.put(tokenizer)
        self.made, self._waited = 1, 0.0

    def encode(self, texts: pa.Array | Texts) -> tuple[Ids, Ints]:
        """Ids end to end, the EOS after each document, and offsets."""
        tokenizer = self._taken()
        try:
            return tokenizer.encode_ended(texts)
        finally:
            self._idle.put(tokenizer)

    def _taken(self) -> Tokenizer:
        with suppress(Empty):
            return self._idle.get_nowait()
        began = time.perf_counter()
        patience = _PATIENCE_SECONDS if self.made >= _CORES else max(_BUILDING_SECONDS - self._waited, 0.0)
        try:
            tokenizer = self._idle.get(timeout=patience)
            self._waited += time.perf_counter() - began
        except Empty:
            self.made, self._waited = self.made + 1, 0.0
            tokenizer = pickle.loads(self._pickled)  # which this object has pickled itself
        return tokenizer


@dataclass(frozen=True)
class _Alike:
    """A tokenizer, equal to those that give the same ids and the same sentences."""

    kind: tuple[type[Tokenizer], str, str, str]
    tokenizer: Tokenizer = field(compare=False)


def encoders(tokenizer: Tokenizer) -> Encoders:
    """One for all loaders of a process: to build an encoder takes tenths of a second, and a second loader's first batch
    and a resume should take none, though each stream has loaded its tokenizer by itself.
    """
    return _encoders(_Alike((type(tokenizer), tokenizer.name, tokenizer.fingerprint, tokenizer.backend), tokenizer))


@functools.lru_cache(maxsize=4)
def _encoders(alike: _Alike) -> Encoders:
    return Encoders(alike.tokenizer)
