"""Blocks: the documents that a lane reads together, through all steps, as tokens; about 512 KiB of text each.

A block is a pure function of (stream, lane, turn, number), and its documents are shuffled among themselves. What a unit
holds beyond one block comes in further ones, so that a large file that cannot be cut is held a block at a time.
"""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.core.hashing import derive_key
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.ledger import READ, Ledger, start_documents
from gristmill.order.permute import permute
from gristmill.sources.base import Format, Mishaps
from gristmill.sources.batches import joined
from gristmill.sources.units import read_unit
from gristmill.streams.lanes import Walk
from gristmill.streams.rows import Rows, Table
from gristmill.streams.steps import Step, drop_empty
from gristmill.streams.units import Units
from gristmill.tokenize.backends import Ids
from gristmill.tokenize.tokenizer import Tokenizer, append_eos

TOKENIZE = "tokenize"
# Bytes of text as they were read: what is tokenised before a lane's first row, and held for each.
BLOCK_BYTES = 1 << 19


class Unread(NamedTuple):
    """How many documents and files could not be read, the first of them named, and what held no documents."""

    skipped: int
    named: list[str]
    ignored: int
    empty: int


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
    ids: pa.Array
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
        units: Units,
        walk: Walk,
        format: Format,
        steps: Sequence[Step],
        tokenizer: Tokenizer,
        table: tuple[Table] | None,
        seq_len: int,
        on_error: str,
    ) -> None:
        self._units, self._walk, self._format, self._steps = units, walk, format, tuple(steps)
        self._encoders, self._table, self._seq_len, self._on_error = encoders(tokenizer), table, seq_len, on_error

    def blocks(self, lane: int, turn: int = 0, number: int = 0) -> Iterator[Block]:
        """The blocks of a lane from block `number` of a turn on, until the walk ends.

        A lane that meets no token in as many units as there are would go on for ever: it is an error.
        """
        silent = 0
        for stop in itertools.count(turn):
            if not (wanted := self._walk.turn(lane, stop)):
                return
            silent += len(wanted)
            for block in self._of_turn(stop, wanted, number if stop == turn else 0):
                silent = 0 if len(block.tokens) else silent
                yield block
            if silent >= max(self._walk.units, self._walk.hold) and self._walk.epochs is None:
                raise SourceError(
                    f"Row {lane} of the batch has read {silent:,} units of files in a row without a document that is "
                    "left: loosen the filters, or name files with text."
                )

    def _of_turn(self, turn: int, wanted: list[tuple[int, int]], skip: int) -> Iterator[Block]:
        """What is read of some units; the first `skip` blocks are read and passed over, neither judged nor encoded.

        What could not be read after the last document comes with a block of none.
        """
        told = _Told(Mishaps(self._on_error))
        units = (self._units[unit] for _, unit in wanted)
        batches = (batch for unit in units for batch in read_unit(unit, self._format, told.mishaps))
        number = 0
        for number, batch in enumerate(_grouped(batches, self._walk.hold * BLOCK_BYTES), 1):
            unread = told.since()
            if number > skip:
                yield self._made(batch, turn, number - 1, *wanted[0], unread)
        if any(unread := told.since()):
            none = np.empty(0, self._encoders.dtype), np.zeros(1, np.int64)
            rows = self._table[0](none[1], self._seq_len, None) if self._table else None
            yield Block(turn, number, *wanted[0], *none, rows, pa.array([], pa.string()), Ledger(), unread)

    def _made(self, batch: pa.RecordBatch, turn: int, number: int, epoch: int, unit: int, unread: Unread) -> Block:
        ledger = Ledger()
        documents = start_documents(batch, 0)
        ledger.count(READ, documents)
        for step in self._steps:
            documents = step.run(documents, ledger)
        documents, key = drop_empty(documents, ledger), None
        if self._walk.key is not None:
            key = derive_key(self._walk.key, "block", epoch, unit, number)
            documents = documents.take(permute(np.arange(len(documents)), max(len(documents), 1), key))
        ids, offsets = self._encoders.encode(documents.batch.column("text"))
        silent = np.diff(offsets) == 0
        documents = ledger.settle(
            TOKENIZE, documents, Verdict(("no_tokens",), np.where(silent, 0, KEEP).astype(np.int16))
        )
        offsets = offsets[np.append(True, ~silent)]
        rows = self._table[0](offsets, self._seq_len, key) if self._table else None
        tokens = np.ascontiguousarray(ids)
        return Block(turn, number, epoch, unit, tokens, offsets, rows, documents.batch.column("id"), ledger, unread)


class _Told:
    """What happened to what could not be read since somebody last asked."""

    def __init__(self, mishaps: Mishaps) -> None:
        self.mishaps, self._counts, self._named = mishaps, (0, 0, 0), 0

    def since(self) -> Unread:
        """What is new; the first five mishaps of a turn are named."""
        mishaps, before = self.mishaps, self._counts
        self._counts = mishaps.skipped, mishaps.ignored.total(), len(mishaps.empty)
        named, self._named = mishaps.examples[self._named :], len(mishaps.examples)
        skipped, ignored, empty = (now - then for now, then in zip(self._counts, before, strict=True))
        return Unread(skipped, named, ignored, empty)


class Encoders:
    """A tokenizer for many threads: each uses one for itself, and what is idle serves the next."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._idle, self._pickled, self._eos = [tokenizer], pickle.dumps(tokenizer), tokenizer.eos
        self.dtype = tokenizer.dtype

    def encode(self, texts: pa.Array) -> tuple[Ids, Ints]:
        """Ids end to end, the EOS after each document that has any, and offsets."""
        try:
            tokenizer = self._idle.pop()
        except IndexError:
            tokenizer = pickle.loads(self._pickled)  # which this object has pickled itself
        try:
            return append_eos(*tokenizer.encode_batch(texts), self._eos)
        finally:
            self._idle.append(tokenizer)


# One for all loaders of a process: building an encoder takes tenths of a second, and a resume should take none.
encoders = functools.lru_cache(maxsize=4)(Encoders)


def _grouped(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The documents of batches by `size` bytes of text, with the one that passes it; a short rest comes last."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        ends = np.cumsum(_text_bytes(batch))
        at = 0
        while at < len(batch):
            before = int(ends[at - 1]) if at else 0
            stop = min(int(np.searchsorted(ends, before + size - count)) + 1, len(batch))
            held.append(batch.slice(at, stop - at))
            count += int(ends[stop - 1]) - before
            at = stop
            if count >= size:
                yield joined(held)
                held, count = [], 0
    if held:
        yield joined(held)


def _text_bytes(batch: pa.RecordBatch) -> Ints:
    text = batch.column("text")
    offsets = np.frombuffer(text.buffers()[1] or bytes(8), np.int64, len(text) + 1, text.offset * 8)
    return np.diff(offsets)
