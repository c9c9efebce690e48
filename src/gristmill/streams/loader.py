"""The batches of a stream for one rank: its lanes, side by side.

loader = stream.loader(rank=0, world_size=8, keys="labels")
for batch in loader: ...
loader.state_dict(); loader.load_state_dict(gm.merge_states(states))
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Self, TypedDict, TypeVar

import numpy as np

from gristmill.core.arguments import as_whole
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.loader.batch import Tally, unstacked
from gristmill.loader.fill import DTYPES, NO_DOCUMENTS, Batch, Filler, as_keys
from gristmill.loader.pieces import Pieces
from gristmill.order.options import check_positive
from gristmill.streams.account import Account
from gristmill.streams.blocks import Block, Mill
from gristmill.streams.cuts import CUTS, Lane, Taken
from gristmill.streams.rows import Rows
from gristmill.streams.state import STATE_VERSION, StreamState, as_text, check_stream_state, merge_states

if TYPE_CHECKING:
    from gristmill.store.table import DocumentColumns, ShardColumns
    from gristmill.streams.stream import Batches

# What the batches of one group take: many steps at once cost little more than one.
_GROUP_BYTES = 4 << 20
Item = TypeVar("Item")
_NEED_DOCUMENTS = {"doc_ids", "position_ids", "cu_seqlens"}
_OPENED = ("_built", "_pools", "_owner", "_account", "_tally", "_batches", "_waited", "_began")


class StreamOptions(TypedDict, total=False):
    """What a loader of a stream may be told beside its rank."""

    keys: str | Sequence[str]
    threads: int
    max_docs: int | None
    pad_to_multiple_of: int | None
    examples: int


class Group(NamedTuple):
    """The batches of a few steps: arrays of (steps, rows, columns), a tally and the places of lanes after each step."""

    arrays: Batch
    tallies: list[Tally]
    places: Ints
    arrived: list[Block]


class StreamLoader:
    """Yields dicts of numpy arrays, as `Loader` does; `step` is the next step to serve.

    keys, max_docs and pad_to_multiple_of are those of `Loader`; where rows are padded to the longest one, that is the
    longest of this rank. threads: how many make blocks ahead, one for each lane; 0 makes them in the loop itself.
    examples: of each rule's drops so many are kept for `dropped()`.
    """

    def __init__(
        self,
        stream: Batches,
        rank: int = 0,
        world_size: int = 1,
        *,
        keys: str | Sequence[str] = (),
        threads: int = 2,
        max_docs: int | None = None,
        pad_to_multiple_of: int | None = None,
        examples: int = 0,
    ) -> None:
        self.stream, self.keys = stream, as_keys(keys)
        self.rank, self.world_size = as_whole("rank", rank, 0), as_whole("world_size", world_size)
        self._threads, self._max_docs = as_whole("threads", threads, 0), max_docs
        self._multiple, self._examples = pad_to_multiple_of, as_whole("examples", examples, 0)
        self._check()
        self.step = 0
        self._places = np.zeros((len(self._rows), 3), np.int64)
        self._reset()

    def _check(self) -> None:
        size, cut = self.stream.batch_size, self.stream.stream.cut
        if not self.rank < self.world_size:
            raise ConfigError(f"There is no rank {self.rank} in a world of {self.world_size}.")
        if size % self.world_size:
            raise ConfigError(f"batch_size {size} cannot be split over {self.world_size} ranks: make it a multiple.")
        check_positive(max_docs=self._max_docs, pad_to_multiple_of=self._multiple)
        if self._multiple is not None and cut != "pad":
            raise ConfigError(f"pad_to_multiple_of is for pad(): the rows of {cut}() are full.")

    @property
    def _rows(self) -> range:
        """This rank's lanes."""
        return range(self.rank, self.stream.batch_size, self.world_size)

    def _reset(self) -> None:
        self._built: Iterator[tuple[Batch, Tally, Ints, list[Block]]] | None = None
        self._pools: list[ThreadPoolExecutor] = []
        self._owner = os.getpid()
        self._account = Account(self._examples)
        self._tally, self._batches, self._waited, self._began = Tally(), 0, 0.0, 0.0

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in _OPENED}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close(wait=True)

    def __repr__(self) -> str:
        return f"StreamLoader(at step {self.step:,}, rank {self.rank} of {self.world_size})"

    # Batches.

    def __iter__(self) -> Iterator[Batch]:
        """Batches from `step` on; a state that is loaded while iterating takes effect at once."""
        while True:
            if self._owner != os.getpid():
                self._reset()
            if self._built is None:
                self._built = self._restart()
            began = time.perf_counter()
            try:
                found = next(self._built, None)
            except BaseException:
                self.close()  # a lane that failed begins anew from its place
                raise
            self._waited += time.perf_counter() - began
            if found is None:
                self.close()
                return
            batch, tally, self._places, arrived = found
            self._count(tally, arrived)
            self.step += 1
            yield batch

    def _count(self, tally: Tally, arrived: list[Block]) -> None:
        self._tally.add(tally)
        self._batches += 1
        for block in arrived:
            self._account.add(block)

    def _restart(self) -> Iterator[tuple[Batch, Tally, Ints, list[Block]]]:
        """What is built from the lanes' places on, by threads if there are to be any."""
        self.close()
        self._began = self._began or time.perf_counter()
        pools = [ThreadPoolExecutor(count, "gristmill-stream") for count in (self._threads, 1) if self._threads]
        self._pools = pools  # blocks are made by some threads, and batches of them by one more
        groups = self._groups(self._lanes(pools[:1]))
        groups = _ahead(pools[1], groups) if pools else groups
        return (each for group in groups for each in _each(group))

    def _lanes(self, pools: list[ThreadPoolExecutor]) -> list[Lane]:
        stream, walk = self.stream.stream, self.stream.walk
        assert stream.tokenizer is not None
        kind = CUTS[str(stream.cut)]
        mill = Mill(self.stream.units, walk, stream.format, stream.steps, stream.tokenizer, kind.table,
                    stream.seq_len, stream.on_error)  # fmt: skip
        made = []
        for row, place in zip(self._rows, self._places.tolist(), strict=True):
            blocks = mill.blocks(row, place[0], place[1])
            ahead = _ahead(pools[0], blocks) if pools else blocks
            made.append(kind(ahead, place[2], stream.seq_len))
        return made

    def _groups(self, lanes: list[Lane]) -> Iterator[Group]:
        """Groups of steps, the first of one step and the next ones doubled, until no lane has a row."""
        filler = self._filler()
        seq_len = self.stream.stream.seq_len
        most = max(1, _GROUP_BYTES // (filler.bytes_per_row(seq_len) * len(lanes))) if self._multiple is None else 1
        size, places = 1, self._places
        while True:
            taken = [lane.take(size) for lane in lanes]
            steps = max(len(lane.rows) for lane in taken)
            if not steps:
                return
            group = self._group(filler, taken, steps, places)
            places = group.places[-1]
            yield group
            size = min(2 * size, most)

    def _filler(self) -> Filler:
        stream = self.stream.stream
        assert stream.tokenizer is not None
        by_piece = CUTS[str(stream.cut)].table is not None
        masked = by_piece or self.stream.epochs is not None
        asked = {"input_ids", *self.keys, *(("loss_mask",) if masked else ())}
        wanted = [key for key in DTYPES if key in asked]
        return Filler(wanted, eos=stream.tokenizer.eos, by_piece=by_piece, max_docs=self._max_docs,
                      buffer_bytes=8 * _GROUP_BYTES)  # fmt: skip

    def _group(self, filler: Filler, taken: list[Taken], steps: int, before: Ints) -> Group:
        """The rows of all lanes, step by step, as arrays."""
        lanes, seq_len = len(taken), self.stream.stream.seq_len
        blocks = [block for lane in taken for block in lane.blocks]
        starts = np.cumsum([0, *(len(block.tokens) for block in blocks)], dtype=np.int64)
        pieces, edges = _pieces(taken, starts, steps, lanes)
        width = seq_len if self._multiple is None else _width(pieces, seq_len, self._multiple)
        shards = _shard_columns(blocks, starts)
        documents = _document_columns(blocks, starts) if not _NEED_DOCUMENTS.isdisjoint(self.keys) else NO_DOCUMENTS
        flat, merged = filler.fill(shards, documents, pieces, edges, seq_len, width)
        arrays = {key: array.reshape(steps, lanes, -1) for key, array in flat.items()}
        arrays["sample_ids"] = _by_step([lane.origins for lane in taken], steps, np.full((lanes, 2), -1), source=True)
        places = _by_step([lane.places for lane in taken], steps, before)
        arrived = [block for lane in taken for block in lane.arrived]
        return Group(arrays, _tallies(pieces, edges, steps, lanes * width, merged), places, arrived)

    # State.

    def state_dict(self) -> StreamState:
        """The state to keep with a checkpoint: JSON, 15 characters a row; with several ranks, of this rank's lanes."""
        return {
            "version": STATE_VERSION,
            "step": self.step,
            "stream": self.stream.fingerprint,
            "rank": self.rank,
            "world_size": self.world_size,
            "lanes": as_text(self._places),
            "parts": self.stream.parts,
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where `state` was taken, on any number of ranks; it must have all lanes, by `gm.merge_states`."""
        found = check_stream_state(state, self.stream.fingerprint, self.stream.parts, 0, 1, self.stream.batch_size)
        self.close()
        self.step, self._places = found[0], found[1][self.rank :: self.world_size]

    def restore(self, state: Mapping[str, object]) -> None:
        """Go on where this very rank, of as many, has kept `state`: no other rank is asked for its lanes."""
        made = self.stream.fingerprint, self.stream.parts, self.rank, self.world_size, len(self._rows)
        found = check_stream_state(state, *made)
        self.close()
        self.step, self._places = found

    def merge(self, states: Sequence[Mapping[str, object]]) -> StreamState:
        """The state of all lanes from those of all ranks."""
        return merge_states(states)

    def padding(self) -> Batch:
        """A batch of padding alone: for a rank whose rows have come to their end before those of others."""
        none = np.empty(0, np.int64)
        rows = Rows(np.zeros(1, np.int64), none, none, np.empty(0, np.bool_), none)
        ended = Taken(rows, [], np.empty((0, 3), np.int64), np.empty((0, 2), np.int64), [])
        return next(unstacked(self._group(self._filler(), [ended] * len(self._rows), 1, self._places).arrays))

    def stats(self) -> dict[str, object]:
        """Since iteration began: batches and tokens of this rank, tokens/s, time waited, what steps dropped and why."""
        elapsed = time.perf_counter() - self._began if self._began else 0.0
        return {
            "batches": self._batches,
            "tokens": self._tally.tokens,
            "seconds": elapsed,
            "tokens_per_second": self._tally.tokens / elapsed if elapsed else 0.0,
            "waited_seconds": self._waited,
            "waited_share": self._waited / elapsed if elapsed else 0.0,
            **vars(self._tally),
            **self._account.figures,
        }

    def dropped(self) -> list[dict[str, object]]:
        """Documents that rules dropped, the first `examples` of each reason: id, rule, reason, value, detail, text."""
        return self._account.examples

    def close(self, wait: bool = False) -> None:
        """Stop the threads; iterating again begins with the next step."""
        self._built = None
        for pool in self._pools:
            pool.shutdown(wait=wait, cancel_futures=True)
        self._pools = []


def _ahead(pool: ThreadPoolExecutor, items: Iterator[Item]) -> Iterator[Item]:
    """The same items, the next of which is always being made."""
    coming = [pool.submit(next, items, None)]

    def each() -> Iterator[Item]:
        while (item := coming.pop().result()) is not None:
            coming.append(pool.submit(next, items, None))
            yield item

    return each()


def _each(group: Group) -> Iterator[tuple[Batch, Tally, Ints, list[Block]]]:
    """The batches of a group; what has arrived for it counts with the first."""
    for i, batch in enumerate(unstacked(group.arrays)):
        yield batch, group.tallies[i], group.places[i], group.arrived if i == 0 else []


def _pieces(taken: list[Taken], starts: Ints, steps: int, lanes: int) -> tuple[Pieces, Ints]:
    """The pieces of all lanes in the order of rows, step by step, and the first of each row."""
    firsts = np.cumsum([0, *(len(lane.blocks) for lane in taken)])
    rows = [np.repeat(np.arange(len(lane.rows)), np.diff(lane.rows.edges)) * lanes + i for i, lane in enumerate(taken)]
    positions = [lane.rows.positions + starts[firsts[i]] for i, lane in enumerate(taken)]
    row, order = np.concatenate(rows), np.argsort(np.concatenate(rows), kind="stable")
    row = row[order]
    lengths, follows, truncated = (np.concatenate([lane.rows[i] for lane in taken])[order] for i in (2, 3, 4))
    ends, edges = np.cumsum(lengths), np.searchsorted(row, np.arange(steps * lanes + 1))
    columns = ends - lengths - np.append(0, ends)[edges[row]]
    return Pieces(row, columns, np.concatenate(positions)[order], lengths, follows, truncated), edges


def _width(pieces: Pieces, seq_len: int, multiple: int) -> int:
    longest = int(pieces.lengths.max(initial=1))
    return min(-(-longest // multiple) * multiple, seq_len)


def _shard_columns(blocks: list[Block], starts: Ints) -> ShardColumns:
    """A shard table of the blocks' own memory."""
    addresses = np.array([block.tokens.ctypes.data for block in blocks], np.int64)
    itemsizes = np.array([block.tokens.itemsize for block in blocks], np.int64)
    return starts, addresses, np.zeros(len(blocks), np.int64), itemsizes


def _document_columns(blocks: list[Block], starts: Ints) -> DocumentColumns:
    """A document table of the blocks' own memory."""
    itemsizes = np.array([block.tokens.itemsize for block in blocks], np.int64)
    counts = np.cumsum([0, *(len(block.pointers) for block in blocks)], dtype=np.int64)
    addresses = np.array([block.pointers.ctypes.data for block in blocks], np.int64)
    nothing = np.zeros(len(blocks), np.int64)
    return starts, itemsizes, counts, addresses, nothing, nothing


def _by_step(lanes: list[Ints], steps: int, before: Ints, source: bool = False) -> Ints:
    """Columns of each lane's rows as (steps, lanes, columns); a lane that has ended stays where it was."""
    columns = before.shape[1]
    out = np.empty((steps, len(lanes), columns), np.int64)
    for i, rows in enumerate(lanes):
        out[: len(rows), i] = rows
        out[len(rows) :, i] = -1 if source else (rows[-1] if len(rows) else before[i])
    return np.concatenate([np.where(out[..., :1] < 0, -1, 0), out], axis=2) if source else out


def _tallies(pieces: Pieces, edges: Ints, steps: int, tokens: int, merged: Ints) -> list[Tally]:
    by_step = edges[:: (len(edges) - 1) // steps]
    kept, truncated = (np.diff(np.append(0, np.cumsum(c))[by_step]) for c in (pieces.lengths, pieces.truncated))
    lost = merged.reshape(steps, -1).sum(axis=1) if len(merged) else np.zeros(steps, np.int64)
    return [Tally(tokens, tokens - int(k), int(t), int(m)) for k, t, m in zip(kept, truncated, lost, strict=True)]
