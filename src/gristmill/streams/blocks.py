"""Blocks: the documents that a lane reads together, through all steps, as tokens; about 1 MiB of text each.

A block is a pure function of (stream, lane, turn, number), and its documents are shuffled among themselves. What a unit
holds beyond one block comes in further ones, so that a large file that cannot be cut is held a block at a time.
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.core.hashing import derive_key
from gristmill.core.texts import Texts
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.chain import EMPTY
from gristmill.curate.ledger import READ, Ledger, start_documents, step_names
from gristmill.order.permute import permute
from gristmill.sources.base import Mishaps
from gristmill.streams.augment import Rearranger
from gristmill.streams.lanes import Walk
from gristmill.streams.rows import Rows, Table
from gristmill.streams.steps import Step, drop_empty
from gristmill.streams.units import Cut
from gristmill.tokenize.backends import Ids
from gristmill.tokenize.tokenizer import Tokenizer

TOKENIZE = "tokenize"
_PATIENCE_SECONDS = 0.2


class Unread(NamedTuple):
    """How many documents and files could not be read, the first of them named, and what held no documents.

    `again` are documents that were read a second time, to come to where a lane was.
    """

    skipped: int
    named: list[str]
    ignored: int
    empty: int
    again: int = 0


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

    @functools.cached_property
    def pointers(self) -> Ints:
        """The byte at which each document begins, as an index of a shard has them."""
        return np.ascontiguousarray(self.offsets[:-1] * self.tokens.itemsize)


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
        self._reader.begin({(lane, turn): self._units(lane, turn) for lane, turn in turns.items()})

    def _units(self, lane: int, turn: int) -> list[int]:
        return [unit for _, unit in self._walk.turn(lane, turn)]

    def blocks(self, lane: int, turn: int = 0, number: int = 0, *, noted: bool = True) -> Iterator[Block]:
        """The blocks of a lane from block `number` of a turn on, until the walk ends; with the rows that left if noted.

        A lane that meets no token in as many units as there are would go on for ever: it is an error.
        """
        silent = 0
        for stop in itertools.count(turn):
            if not (wanted := self._walk.turn(lane, stop)):
                return
            silent += len(wanted)
            for block in self._of_turn(lane, stop, wanted, number if stop == turn else 0, noted):
                silent = 0 if len(block.tokens) else silent
                yield block
            if silent >= max(self._walk.units, self._walk.hold) and self._walk.epochs is None:
                raise SourceError(
                    f"Row {lane} of the batch has read {silent:,} units of files in a row without a document that is "
                    "left: loosen the filters, or name files with text."
                )

    def _of_turn(self, lane: int, turn: int, wanted: list[tuple[int, int]], first: int, noted: bool) -> Iterator[Block]:
        """The blocks of some units from the one called `first` on.

        Those before it that had to be read are passed over, neither judged nor encoded, and counted. What could not be
        read after the last document comes with a block of none.
        """
        told = _Told(Mishaps(self._on_error))
        held = self._reader.turn((lane, turn), [unit for _, unit in wanted], self._units(lane, turn + 1))
        number = again = 0
        for number, batch in held.blocks(first, told.mishaps):
            unread = told.since(again)
            if number < first:
                again += len(batch)
            else:
                yield self._made(batch, Ledger(noted=noted), turn, number, *wanted[0], unread)
                again = 0
        if any(unread := told.since(again)):
            none = np.empty(0, self._encoders.dtype), np.zeros(1, np.int64)
            rows = self._table[0](none[1], self._seq_len, None) if self._table else None
            yield Block(turn, number, *wanted[0], *none, rows, Ledger(), unread)

    def _made(
        self, batch: pa.RecordBatch, ledger: Ledger, turn: int, number: int, epoch: int, unit: int, unread: Unread
    ) -> Block:
        documents = start_documents(batch, 0)
        ledger.count(READ, documents)
        for name, step in self._steps.items():
            documents = step.run(documents, ledger, name)
        documents = drop_empty(documents, ledger)
        ids, offsets = self._encoded(documents.batch, (epoch, unit, number))
        silent = np.diff(offsets) == 0
        ledger.settle(TOKENIZE, documents, Verdict(("no_tokens",), np.where(silent, 0, KEEP).astype(np.int16)))
        order, key = np.arange(len(documents)), None
        if self._walk.key is not None:
            key = derive_key(self._walk.key, "block", epoch, unit, number)
            order = permute(order, max(len(documents), 1), key)
        order = order[~silent[order]]
        tokens, offsets = _laid_out(ids, offsets, order, self._encoders.eos)
        rows = self._table[0](offsets, self._seq_len, key) if self._table else None
        return Block(turn, number, epoch, unit, tokens, offsets, rows, ledger, unread)

    def _encoded(self, documents: pa.RecordBatch, place: tuple[int, int, int]) -> tuple[Ids, Ints]:
        """Ids end to end, without EOS, and offsets."""
        if self._rearranger is None:
            return self._encoders.encode(documents.column("text"))
        return self._rearranger.encode(documents, place, self._encoders.encode)


def _named(steps: Sequence[Step]) -> dict[str, Step]:
    """Steps by names of their own, which what a stream does by itself has not."""
    own = (READ, EMPTY, TOKENIZE)
    return dict(zip(step_names([*own, *(step.name for step in steps)])[len(own) :], steps, strict=True))


def _laid_out(ids: Ids, offsets: Ints, order: Ints, eos: int) -> tuple[Ids, Ints]:
    """Documents in this order, the EOS after each: it is one more of them, taken every other time."""
    column = Texts(
        np.append(ids, ids.dtype.type(eos)).view(np.uint8), np.append(offsets, offsets[-1] + 1) * ids.itemsize
    )
    laid = column.gather(np.column_stack([order, np.full(len(order), len(offsets) - 1)]).ravel())
    return laid.data.view(ids.dtype), laid.offsets[::2] // ids.itemsize


class _Told:
    """What happened to what could not be read since somebody last asked."""

    def __init__(self, mishaps: Mishaps) -> None:
        self.mishaps, self._counts, self._named = mishaps, (0, 0, 0), 0

    def since(self, again: int) -> Unread:
        """What is new, and documents read again; the first five mishaps of a turn are named."""
        mishaps, before = self.mishaps, self._counts
        self._counts = mishaps.skipped, mishaps.ignored.total(), len(mishaps.empty)
        named, self._named = mishaps.examples[self._named :], len(mishaps.examples)
        skipped, ignored, empty = (now - then for now, then in zip(self._counts, before, strict=True))
        return Unread(skipped, named, ignored, empty, again)


class Encoders:
    """A tokenizer for many threads: each uses one for itself, and what is idle serves the next.

    A further one takes 0.4 s to build, a block 4 ms to encode: once there is one a core, a thread waits for its turn,
    but not for ever, since the threads that had them may be those of a process that this one is a fork of.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._pickled, self.eos, self.dtype = pickle.dumps(tokenizer), tokenizer.eos, tokenizer.dtype
        self._idle: SimpleQueue[Tokenizer] = SimpleQueue()
        self._idle.put(tokenizer)
        self.made = 1

    def encode(self, texts: pa.Array) -> tuple[Ids, Ints]:
        """Ids end to end, without EOS, and offsets."""
        try:
            tokenizer = self._idle.get(timeout=0 if self.made < (os.cpu_count() or 1) else _PATIENCE_SECONDS)
        except Empty:
            self.made += 1
            tokenizer = pickle.loads(self._pickled)  # which this object has pickled itself
        try:
            return tokenizer.encode_batch(texts)
        finally:
            self._idle.put(tokenizer)


# One for all loaders of a process: building an encoder takes tenths of a second, and a resume should take none.
encoders = functools.lru_cache(maxsize=4)(Encoders)
