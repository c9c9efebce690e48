"""The batches of a stream for one rank: its lanes, side by side.

loader = stream.loader(rank=0, world_size=8, keys="labels")
for batch in loader: ...
loader.state_dict(); loader.load_state_dict(gm.merge_states(states))
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from gristmill.arrow.left import ArrowState
from gristmill.core.arguments import as_whole
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, EngineError
from gristmill.engine.partner import PartnerEnded
from gristmill.loader.batch import Tally, unstacked
from gristmill.loader.fill import DTYPES, Batch, Filler, as_keys
from gristmill.loader.observed import Observed
from gristmill.loader.partition import Partition
from gristmill.order.options import check_positive
from gristmill.order.permute import use_compiled
from gristmill.order.plan import Plan
from gristmill.order.trace import TraceRow
from gristmill.places.traffic import traffic
from gristmill.streams.account import Account
from gristmill.streams.ahead import Begun, ahead
from gristmill.streams.assembly import Assembly, Fed
from gristmill.streams.blocks import Block, Mill
from gristmill.streams.crew import Crew, mill_of
from gristmill.streams.cuts import CUTS, Lane, Taken
from gristmill.streams.state import STATE_VERSION, StreamState, as_text, check_stream_state, merge_states, sealed
from gristmill.streams.stores import StoreRows
from gristmill.streams.trace import traced
from gristmill.streams.turns import Place

if TYPE_CHECKING:
    from gristmill.streams.stream import Batches

# What a lane is asked for at once: many rows cost little more than one.
_TAKEN_TOKENS = 1 << 16
_BUFFER_BYTES = 32 << 20
_OPENED = ("_built", "_pools", "_mills", "_crew", "_stores", "_owner", "_account", "_last", "_tally", "_batches",
           "_waited", "_began", "_observers", "_record", "_traffic")  # fmt: skip


class Served(NamedTuple):
    """A batch, what is counted of it, the places of lanes after it, and the blocks that have come for it."""

    batch: Batch
    tally: Tally
    places: Ints
    arrived: list[Block]


class StreamLoader(Observed):
    """Yields dicts of numpy arrays, as `Loader` does; `step` is the next step to serve.

    keys, max_docs and pad_to_multiple_of are those of `Loader`; where rows are padded to the longest one, that is the
    longest of this rank. threads: how many make blocks ahead, one for each lane; 0 makes them in the loop itself.
    workers: processes that make them in place of threads, since functions of the user's hold one core alone. examples:
    of each rule's drops so many are kept for `dropped()`.
    """

    def __init__(
        self,
        stream: Batches,
        rank: int = 0,
        world_size: int = 1,
        *,
        keys: str | Sequence[str] = (),
        threads: int = 2,
        workers: int = 0,
        max_docs: int | None = None,
        pad_to_multiple_of: int | None = None,
        examples: int = 0,
    ) -> None:
        self.stream, self.keys = stream, as_keys(keys)
        self.rank, self.world_size = rank, world_size
        self._threads, self._max_docs = as_whole("threads", threads, 0), max_docs
        self._workers = as_whole("workers", workers, 0)
        self._multiple, self._examples = pad_to_multiple_of, as_whole("examples", examples, 0)
        self._check()
        # The next step and the lanes' places before it: one value, so that no interrupt comes between them.
        self._at = 0, np.zeros((len(self._rows), 3 * len(stream.streams)), np.int64)
        self._reset()

    @property
    def step(self) -> int:
        """The next step to serve."""
        return self._at[0]

    @property
    def _places(self) -> Ints:
        return self._at[1]

    def _check(self) -> None:
        cut = self.stream.first.cut
        Partition(self.rank, self.world_size).check_size(self.stream.batch_size)
        check_positive(max_docs=self._max_docs, pad_to_multiple_of=self._multiple)
        if self._multiple is not None and cut != "pad":
            raise ConfigError(f"pad_to_multiple_of is for pad(): the rows of {cut}() are full.")

    @property
    def _rows(self) -> range:
        """This rank's lanes."""
        return range(self.rank, self.stream.batch_size, self.world_size)

    def _reset(self) -> None:
        self._built: Iterator[Served] | None = None
        self._pools: list[ThreadPoolExecutor] = []
        self._mills: list[Mill] = []
        self._crew: Crew | None = None
        self._stores: StoreRows | None = None
        self._owner, self._traffic = os.getpid(), traffic.figures()
        self._account, self._last = Account(self._examples), list[Block]()
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
                waited = time.perf_counter() - began
                if found is not None and self._observers:
                    self._tell(self.step, found.tally.tokens, waited)
            except PartnerEnded as error:
                self.close()
                raise EngineError(
                    "A worker process of the stream died, perhaps for want of memory: iterate again, or load the last "
                    "state, and it goes on with the next batch; fewer workers need less memory.",
                    arguments="workers",
                ) from error
            except BaseException:
                self.close()  # a lane that failed begins anew from its place, as does what nobody was given
                raise
            self._waited += waited
            if found is None:
                self.close()
                self._arrive(self._last)
                if not self.step:
                    self._account.refuse_nothing(self.world_size == 1)
                return
            self._count(found)
            yield found.batch

    def _recorded(self) -> tuple[Plan | None, int, int]:
        return None, self.rank, self.world_size

    def _count(self, served: Served) -> None:
        self._at = self.step + 1, served.places
        self._tally.add(served.tally)
        self._batches += 1
        self._arrive(served.arrived)

    def _arrive(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._account.add(block)

    def _restart(self) -> Iterator[Served]:
        """What is built from the lanes' places on, by threads if there are to be any."""
        self.close()
        self._began = self._began or time.perf_counter()
        use_compiled()
        pools = [ThreadPoolExecutor(count, "gristmill-stream") for count in (self._threads, 1) if self._threads]
        self._pools = pools  # blocks are made by some threads, or processes, and batches of them by one more thread
        if self._workers:
            begun = [self._begun(k) if self.stream.weights[k] else {} for k in range(len(self.stream.streams))]
            self._crew = Crew(self.stream, self._workers, bool(self._examples), begun)
        self._stores = self._fetched_stores()
        stacks = self._stacks(self._lanes(), self._stores)
        made: Iterator[list[Served]] = ahead(partial(pools[1].submit, next, stacks, None)) if pools else stacks
        return itertools.chain.from_iterable(made)

    def trace(self) -> list[TraceRow]:
        """The documents of this rank's rows of the next batch, which are made once more for it; none at the end."""
        self.close()
        use_compiled()
        sources, ordinals = self._labels(self.step, 1)
        try:
            fed = self._fed(self._lanes(named=True), sources.reshape(1, -1))
        finally:
            self.close()
        stores = self._rows_of_stores()
        return traced(self.stream, self._rows, fed, stores.picked(sources, ordinals) if stores else None)

    def _lanes(self, *, named: bool = False) -> list[list[Lane]]:
        """For each stream its lanes that are this rank's, from their places on; named: as documents are named."""
        first, made = self.stream.first, []
        kind = CUTS[str(first.cut)]
        for k in range(len(self.stream.streams)):
            begun, given = self._begun(k), self._places[:, 3 * k + 2].tolist()
            mill = mill_of(self.stream, k)
            if self.stream.weights[k] and not self._crew:
                mill.begin(begun)
            self._mills.append(mill)
            each = zip(begun.items(), given, strict=True)
            made.append([kind(self._blocks(mill, k, *lane, named), rows, first.seq_len) for lane, rows in each])
        return made

    def _begun(self, k: int) -> dict[int, Place]:
        """The turn and block at which this rank's lanes of a stream are."""
        places = self._places[:, 3 * k : 3 * k + 2].tolist()
        return {row: (turn, number) for row, (turn, number) in zip(self._rows, places, strict=True)}

    def _blocks(self, mill: Mill, k: int, row: int, place: Place, named: bool) -> Iterator[Block]:
        """The blocks of a lane, the next of which is being made where there is somebody to make it."""
        blocks = mill.blocks(row, *place, noted=bool(self._examples), named=named)
        if not self.stream.weights[k]:
            return blocks
        if self._crew:
            return self._crew.blocks(k, row)
        return ahead(partial(Begun, self._pools[0], partial(next, blocks, None))) if self._pools else blocks

    def _stacks(self, lanes: list[list[Lane]], stores: StoreRows | None) -> Iterator[list[Served]]:
        """Batches from `step` on, until no lane has a row: lanes are asked for one step, then for twice as many."""
        rows, seq_len = len(self._rows), self.stream.first.seq_len
        assembly = Assembly(self._filler(), rows, seq_len, self._multiple, self.stream.augmented(self._rows))
        step, size, places = self.step, 1, self._places
        while True:
            sources, ordinals = self._labels(step, size)
            if stores:
                stores.reached(step)
            fed = self._fed(lanes, sources.reshape(size, rows))
            picked = stores.picked(sources, ordinals) if stores else None
            given = (fed.rows, picked.rows) if picked else (fed.rows,)
            steps = max(int(own.max(initial=-1)) // rows + 1 for own in given)
            if not steps:
                self._last = fed.arrived
                return
            after = fed.places_after(steps, places)
            arrived = [fed.arrived, *([] for _ in range(steps - 1))]
            rest = zip(after, arrived, strict=True)
            least = stores.least(picked, rows, steps) if stores and picked else None
            stacks = assembly.stacks(fed, steps, least)
            for stack in stores.over(stacks, picked) if stores and picked else stacks:
                each = zip(unstacked(stack.arrays), stack.tallies, strict=True)
                yield [Served(*batch, *next(rest)) for batch in each]
            step, size, places = step + steps, min(2 * size, max(_TAKEN_TOKENS // seq_len, 1)), after[-1]

    def _labels(self, step: int, count: int) -> tuple[Ints, Ints]:
        """Of each row of `count` steps its source in the mix, and how many rows that has given before."""
        slots = np.arange(step, step + count)[:, None] * self.stream.batch_size + np.array(self._rows)
        return self.stream.mix.labels(slots.ravel())

    def _fed(self, lanes: list[list[Lane]], sources: Ints) -> Fed:
        """What the lanes give for some steps: each row is fed by its lane of the stream that the mix names."""
        rows = len(self._rows)
        all_of_first = None if sources.any() else np.arange(len(sources)) * rows
        numbers, taken, own = list[int](), list[Taken](), list[Ints]()
        for k, each in enumerate(lanes):
            for i, lane in enumerate(each):
                wanted = np.flatnonzero(sources[:, i] == k) * rows if all_of_first is None or k else all_of_first
                numbers.append(k)
                found = lane.take(len(wanted))
                taken.append(found)
                own.append(wanted[: found.given] + i)
        return Fed.of(numbers, taken, own)

    def _rows_of_stores(self) -> StoreRows | None:
        """What gives the rows of stores, where there are any."""
        stream, plan = self.stream, self.stream.plan
        if plan is None:
            return None
        keys = self._filler().keys
        return StoreRows(plan, stream.mix, stream.batch_size, keys, self._max_docs, self._multiple)

    def _fetched_stores(self) -> StoreRows | None:
        """The same, which are fetched from now on where they are elsewhere."""
        if stores := self._rows_of_stores():
            stores.fetch_from(self.step, len(self._rows), self._labels)
        return stores

    def _filler(self) -> Filler:
        first = self.stream.first
        by_piece = CUTS[str(first.cut)].table is not None
        masked = by_piece or self.stream.epochs is not None
        targets = first.augmentations[-1].targets if first.augmentations else ()
        asked = {"input_ids", *self.keys, *(("loss_mask",) if masked else ()), *targets}
        wanted = [key for key in DTYPES if key in asked]
        return Filler(wanted, eos=first.encoder.eos, by_piece=by_piece, max_docs=self._max_docs,
                      buffer_bytes=_BUFFER_BYTES)  # fmt: skip

    # State.

    def state_dict(self) -> StreamState:
        """The state to keep with a checkpoint: JSON, 15 characters a row; with several ranks, of this rank's lanes."""
        return sealed({
            "version": STATE_VERSION,
            "step": self.step,
            "stream": self.stream.fingerprint,
            "rank": self.rank,
            "world_size": self.world_size,
            "streams": len(self.stream.streams),
            "lanes": as_text(self._places),
            "parts": self.stream.parts,
        })  # fmt: skip

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where `state` was taken, on any number of ranks; it must have all lanes, by `gm.merge_states`."""
        shape = self.stream.batch_size, 3 * len(self.stream.streams)
        found = check_stream_state(state, self.stream.fingerprint, self.stream.parts, 0, 1, shape)
        self.close()
        self._at = found[0], found[1][self.rank :: self.world_size]

    def restore(self, state: Mapping[str, object]) -> None:
        """Go on where this very rank, of as many, has kept `state`: no other rank is asked for its lanes."""
        made = self.stream.fingerprint, self.stream.parts, self.rank, self.world_size
        found = check_stream_state(state, *made, (len(self._rows), 3 * len(self.stream.streams)))
        self.close()
        self._at = found

    def merge(self, states: Sequence[Mapping[str, object]]) -> StreamState | ArrowState:
        """The state of all lanes from those of all ranks."""
        return merge_states(states)

    def padding(self) -> Batch:
        """A batch of padding alone: for a rank whose rows have come to their end before those of others."""
        assembly = Assembly(self._filler(), len(self._rows), self.stream.first.seq_len, None)
        return next(unstacked(next(assembly.stacks(Fed.of([], [], []), 1)).arrays))

    def stats(self) -> dict[str, object]:
        """Since iteration began: batches and tokens of this rank, tokens/s, time waited, what steps dropped and why.

        Where files or stores are on other machines, what was asked of these, too.
        """
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
            **(traffic.since(self._traffic) if self._fetches else {}),
        }

    @property
    def _fetches(self) -> bool:
        """Whether some of it is read from other machines."""
        return self._stores is not None or any(units.waits for units in self.stream.units)

    def dropped(self) -> list[dict[str, object]]:
        """Documents that rules dropped, the first `examples` of each reason: id, rule, reason, value, detail, text."""
        return self._account.examples

    def close(self, wait: bool = False) -> None:
        """Stop the threads and processes; iterating again begins with the next step."""
        self._built = None
        if self._crew is not None:
            self._crew.close()
            self._crew = None
        for pool in self._pools:
            pool.shutdown(wait=wait, cancel_futures=True)
        self._pools = []
        for mill in self._mills:
            mill.close()
        self._mills = []
        if self._stores is not None:
            self._stores.close(wait)
            self._stores = None
        if self._record is not None:
            self._record.close()
