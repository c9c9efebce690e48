"""Blocks: the documents that a lane reads together, through all steps, as tokens; about 1 MiB of text each.

A block is a pure function of (stream, lane, turn, number), and its documents are shuffled among themselves. What a unit
holds beyond one block comes in further ones, so that a large file that cannot be cut is held a block at a time.
"""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Bytes, Ints, Mask
from gristmill.core.cached import cached_property
from gristmill.core.errors import SourceError
from gristmill.core.hashing import derive_key, key_below
from gristmill.curate.chain import EMPTY
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import READ, Ledger, add_counts, start_documents, step_names
from gristmill.order.permute import permute
from gristmill.places.traffic import traffic
from gristmill.sources.base import Mishaps
from gristmill.streams.augment import Rearranger
from gristmill.streams.encoders import encoders
from gristmill.streams.lanes import Walk
from gristmill.streams.readahead import ReadAhead
from gristmill.streams.rows import Rows, Table
from gristmill.streams.silence import Silence
from gristmill.streams.steps import Step, drop, drop_empty
from gristmill.streams.turns import END, First, Place, Reader
from gristmill.streams.units import Cut
from gristmill.streams.unread import ALL_READ, Unread, warn_of_fields
from gristmill.tokenize.backends import Ids, ended, without_eos, without_silent
from gristmill.tokenize.tokenizer import Tokenizer

TOKENIZE = "tokenize"
# Fewer documents may lack what others have.
_LOOKED_AT = 10
# The (epoch, unit) that a lane reads together.
Stops = list[tuple[int, int]]
# The turn, number, epoch and unit of a block.
Numbers = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Block:
    """Documents end to end, EOS after each: document i is tokens[offsets[i]:offsets[i + 1]].

    `rows` are its rows, where they are not stretches that go on in the next block. `ledger` says what the steps did on
    the way, `unread` what could not be read. `after` is the (turn, number) from which the lane can be read on without
    reading anything twice, where that is known. `fetched` is what a process that made it has asked of other machines.
    `named` are id and source of the documents, where they were asked for.
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
    after: Place | None = None
    fetched: Mapping[str, int] | None = None
    named: pa.RecordBatch | None = None

    @cached_property
    def told(self) -> Ints:
        """Of each of its rows the lane's place after it (turn, block, rows), its epoch and its unit."""
        assert self.rows is not None
        told = np.empty((len(self.rows), 5), np.int64)
        told[:] = self.turn, self.number, 0, self.epoch, self.unit
        told[:, 2] = np.arange(1, len(told) + 1)
        return told

    def __reduce__(self) -> tuple[object, ...]:
        """For another process, in two pieces of memory: pickle takes a dozen calls for each array, on both sides."""
        numbers, columns = (self.turn, self.number, self.epoch, self.unit), [self.offsets, *(self.rows or ())]
        table: Ints = np.concatenate(columns)
        memory = [pickle.PickleBuffer(array.data) for array in (self.tokens, table)]
        sizes, unread = [len(column) for column in columns], None if self.unread is ALL_READ else self.unread
        return _arrived, (
            numbers,
            self.tokens.dtype.char,
            *memory,
            sizes,
            self.ledger,
            unread,
            self.after,
            self.fetched,
        )

    @cached_property
    def address(self) -> int:
        """Where its tokens lie in memory."""
        return int(self.tokens.__array_interface__["data"][0])

    @cached_property
    def pointers(self) -> Ints:
        """The byte at which each document begins, as an index of a shard has them."""
        return np.ascontiguousarray(self.offsets[:-1] * self.tokens.itemsize)


def _arrived(
    numbers: Numbers,
    kind: str,
    tokens: bytes | Bytes,
    table: bytes | Bytes,
    sizes: list[int],
    ledger: Ledger,
    unread: Unread | None,
    after: Place | None,
    fetched: Mapping[str, int] | None,
) -> Block:
    """A block of another process: `table` has its offsets and the columns of its rows end to end, of these sizes.

    What that process has asked of other machines counts as asked by this one.
    """
    if fetched:
        traffic.add(**fetched)
    whole, ends = np.frombuffer(table, np.int64), itertools.accumulate(sizes)
    offsets, *columns = [whole[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    rows = None
    if columns:
        edges, positions, lengths, follows, truncated = columns
        rows = Rows(edges, positions, lengths, follows.astype(np.bool_), truncated)
    return Block(*numbers, np.frombuffer(tokens, kind), offsets, rows, ledger, unread or ALL_READ, after)


class Mill:
    """Makes the blocks of a stream. Safe to call from many threads."""

    def __init__(
        self,
        name: str,
        units: Cut,
        walk: Walk,
        steps: Sequence[Step],
        tokenizer: Tokenizer,
        table: tuple[Table] | None,
        seq_len: int,
        on_error: str,
        rearranger: Rearranger | None,
    ) -> None:
        self._name, self._rearranger = name, rearranger
        reader = units.reader(walk.hold)
        self._reader: Reader = ReadAhead(reader, on_error) if units.waits else reader
        self._walk, self._steps, self._silence = walk, _named(steps), Silence(walk)
        self._encoders, self._table, self._seq_len, self._on_error = encoders(tokenizer), table, seq_len, on_error
        self._looks = True

    def begin(self, places: Mapping[int, Place]) -> None:
        """Hear at which turn and block each lane will begin, so that what they read first can be read together."""
        self._reader.begin(
            {
                (lane, turn): First(_units(self._walk.turn(lane, turn)), number)
                for lane, (turn, number) in places.items()
            }
        )

    def close(self) -> None:
        """Make no more."""
        self._reader.close()

    def blocks(
        self, lane: int, turn: int = 0, number: int = 0, *, noted: bool = True, named: bool = False
    ) -> Iterator[Block]:
        """The blocks of a lane from block `number` of a turn on, until the walk ends; with the rows that left if noted,
        and the names of those that stay if named.

        A lane that would never meet a token any more is an error.
        """
        wanted, silent = self._walk.turn(lane, turn), 0
        while wanted:
            after = self._walk.turn(lane, turn + len(wanted))
            gave = number > 0  # a lane that goes on inside of a turn has had tokens of it
            dropped, unread = dict[str, int](), ALL_READ
            for block in self._of_turn((lane, turn), wanted, after, number, noted, named):
                if len(block.tokens):
                    gave = True
                elif self._walk.epochs is None:
                    add_counts(dropped, {step: sum(each.values()) for step, each in block.ledger.reasons.items()})
                    unread = unread.and_then(block.unread)
                yield block
            if gave:
                self._silence.broken()
            elif self._walk.epochs is None:
                self._refuse_silence(lane, _units(wanted), dropped, unread, silent)
            turn, number, silent, wanted = turn + len(wanted), 0, 0 if gave else silent + len(wanted), after

    def _refuse_silence(
        self, lane: int, units: Sequence[int], dropped: Mapping[str, int], unread: Unread, silent: int
    ) -> None:
        lost = self._silence.met(units, dropped, unread, silent)
        if lost is not None:
            raise SourceError(
                f"Row {lane} of the batch meets no document of the source {self._name!r} that is left{lost}: loosen "
                "the filters, or name files with text."
            )

    def _of_turn(
        self, place: Place, wanted: Stops, after: Stops, first: int, noted: bool, named: bool
    ) -> Iterator[Block]:
        """The blocks of some units from the one called `first` on; `after` are the lane's next.

        Those before it that had to be read are passed over, neither judged nor encoded, and counted. What could not be
        read after the last document comes with a block of none.
        """
        told = _Told(Mishaps(self._on_error))
        held = self._reader.turn(place, _units(wanted), _units(after))
        number = again = 0
        for number, batch, following in held.blocks(first, told.mishaps):
            unread = told.since(again)
            if number < first:
                again += len(batch)
                continue
            after_it = _after(place[1], len(wanted), following)
            yield self._made(batch, Ledger(noted=noted), (place[1], number, *wanted[0]), unread, after_it, named)
            again = 0
        if any(unread := told.since(again)):
            none = np.empty(0, self._encoders.dtype), np.zeros(1, np.int64)
            rows = self._table[0](none[1], self._seq_len, None) if self._table else None
            yield Block(place[1], number, *wanted[0], *none, rows, Ledger(), unread)

    def _made(
        self,
        batch: pa.RecordBatch,
        ledger: Ledger,
        numbers: Numbers,
        unread: Unread,
        after: Place | None,
        named: bool,
    ) -> Block:
        _, number, epoch, unit = numbers
        if self._looks and len(batch) >= _LOOKED_AT:
            self._looks = False
            warn_of_fields(batch)
        documents = start_documents(batch, 0)
        ledger.count(READ, documents)
        for name, step in self._steps.items():
            documents = step.run(documents, ledger, name)
        documents = drop_empty(documents, ledger)
        order = key = None
        if self._walk.key is not None:
            key = key_below(_blocks_key(self._walk.key), epoch, unit, number)
            order = permute(np.arange(len(documents)), max(len(documents), 1), key)
        tokens, bounds = self._encoded(documents, order, (epoch, unit, number))
        silent = bounds[1:] - bounds[:-1] == 1
        if np.count_nonzero(silent):
            tokens, bounds = without_silent(tokens, bounds, silent)
            drop(TOKENIZE, _as_read(silent, order), documents, ledger, "no_tokens")
        else:
            ledger.pass_all(TOKENIZE, documents)
        rows = self._table[0](bounds, self._seq_len, key) if self._table else None
        names = _names(documents, order, silent) if named else None
        return Block(*numbers, tokens, bounds, rows, ledger, unread, after, named=names)

    def _encoded(self, documents: Documents, order: Ints | None, place: tuple[int, int, int]) -> tuple[Ids, Ints]:
        """Ids of documents in this order end to end, the EOS after each, and offsets."""
        if self._rearranger is None:
            return self._encoders.encode(documents, order)
        encode = self._encoders.encode
        laid = documents if order is None else documents.take(order)
        found = self._rearranger.encode(laid.batch, place, lambda texts: without_eos(*encode(texts)))
        return ended(*found, self._encoders.eos)


def _after(turn: int, units: int, following: int | None) -> Place | None:
    """The place behind a block of a turn of so many units, if what follows it is known."""
    if following is None:
        return None
    return (turn + units, 0) if following == END else (turn, following)


def _names(documents: Documents, order: Ints | None, silent: Mask) -> pa.RecordBatch:
    """Id and source of documents in this order, without those that are silent."""
    names = documents.batch.select(["id", "source"])
    return (names if order is None else names.take(pa.array(order))).filter(pa.array(~silent))


def _as_read(gone: Mask, order: Ints | None) -> Mask:
    """What is said of documents in this order, of them as they were read."""
    if order is None:
        return gone
    found = np.empty_like(gone)
    found[order] = gone
    return found


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
