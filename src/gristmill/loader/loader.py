"""The loader: a plan's batches for one rank.

loader = Loader(plan, rank=0, world_size=8, keys="labels")
for batch in loader: ...                 # from loader.step on
loader.batch(48_211)                     # any step, at once
loader.load_state_dict(checkpoint)       # milliseconds, on any world size
"""

from __future__ import annotations

import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, Self, TypedDict, TypeVar

from gristmill.core.arguments import as_whole
from gristmill.core.errors import ConfigError
from gristmill.loader.batch import Assembler, Group, Located, Stack, Tally, unstacked
from gristmill.loader.fetchahead import FetchAhead
from gristmill.loader.fill import Batch, as_keys
from gristmill.loader.groups import GroupSize, group_size, groups_of, joined
from gristmill.loader.observed import Observed
from gristmill.loader.orderahead import OrderAhead
from gristmill.loader.partition import Partition
from gristmill.loader.readahead import ReadAhead
from gristmill.loader.state import State, check_state, make_state
from gristmill.order.plan import Plan, as_plan
from gristmill.places.traffic import traffic

# Enough to hide a slow read of a batch of 64 x 2,048 with all keys (3.4 MB); buffers are used again, not grown.
READAHEAD_BYTES = 64 << 20
THREADS = 2
Ahead = FetchAhead[Located]
# Batches that wait longer than the caches of a processor hold them need not be written through these.
_CACHED_BYTES = 32 << 20
Item = TypeVar("Item")
# In the place of the step from which on bytes are fetched ahead, once an iteration has gone on from there.
_TAKEN = -1
# What each process has for itself: it is made anew where a loader is unpickled.
_OPENED = ("_order", "_assembler", "_sizes", "_ahead", "_built", "_foreseen", "_traffic", "_owner", "_tally",
           "_batches", "_waited", "_began", "_observers", "_record")  # fmt: skip


class RankOptions(TypedDict, total=False):
    """What the loaders of plans and of streams may be told beside their rank."""

    keys: str | Sequence[str]
    threads: int
    max_docs: int | None
    pad_to_multiple_of: int | None


class LoaderOptions(RankOptions, total=False):
    """What `Loader` may be told beside its plan and its rank."""

    readahead_bytes: int


class StreamOptions(RankOptions, total=False):
    """What the loader of a stream may be told beside its rank."""

    workers: int
    examples: int


class PlanLoader(Observed, ABC, Generic[Item]):
    """What the loaders of a plan share, whatever they make of its arrays; arguments are those of `Loader`."""

    def __init__(
        self,
        plan: Plan,
        rank: int = 0,
        world_size: int = 1,
        *,
        keys: str | Sequence[str] = (),
        threads: int = THREADS,
        readahead_bytes: int = READAHEAD_BYTES,
        max_docs: int | None = None,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        self.plan, self.keys = as_plan("plan", plan), as_keys(keys)
        self._threads = as_whole("threads", threads, 0)
        self._readahead_bytes = as_whole("readahead_bytes", readahead_bytes)
        self._max_docs = max_docs
        self._pad_to_multiple_of = pad_to_multiple_of
        self._partition = Partition(rank, world_size)
        self._partition.check(plan)
        self.step = 0
        self._reset()
        if self._assembler.fetched:
            self._assembler.say_cost()
            self._foresee()

    def _reset(self) -> None:
        self._order = OrderAhead(self.plan)
        self._assembler = Assembler(
            self.plan,
            self.keys,
            self._max_docs,
            buffer_bytes=2 * self._readahead_bytes,
            pad_to_multiple_of=self._pad_to_multiple_of,
            past_caches=self._threads > 0 and self._readahead_bytes >= _CACHED_BYTES,
        )
        self._sizes: dict[int, GroupSize] = {}
        self._ahead: ReadAhead[Stack] | None = None
        self._built: Iterator[tuple[int, Item, Tally]] | None = None
        self._foreseen: tuple[int, Ahead] | None = None
        self._owner, self._traffic = os.getpid(), traffic.figures()
        self._tally, self._batches, self._waited, self._began = Tally(), 0, 0.0, 0.0

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in _OPENED}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._reset()
        self._foresee()

    def __repr__(self) -> str:
        end = "" if self.plan.total_steps is None else f" of {self.plan.total_steps:,}"
        ranks = f"rank {self.rank} of {self.world_size}" if self.world_size > 1 else "one rank"
        return f"{type(self).__name__}(at step {self.step:,}{end}, {ranks}: {self.plan!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close(wait=True)

    def __len__(self) -> int:
        """Steps that the whole plan serves; TypeError if it is endless."""
        return len(self.plan)

    @property
    def rank(self) -> int:
        """Which part of each batch this loader gives."""
        return self._partition.rank

    @property
    def world_size(self) -> int:
        """Into how many parts each batch is split."""
        return self._partition.world_size

    @property
    def served(self) -> int:
        """Batches that the trainer has had before `step`: steps less the skipped ones."""
        return self.plan.skips.served(self.step)

    def batch(self, step: int) -> Item:
        """This rank's rows of any step, without touching the iteration."""
        self.plan.check_served(step)
        return next(self._unstack(next(self._stacks(range(step, step + 1)))))[1]

    def batches_from(self, step: int, every: int = 1) -> Iterator[tuple[int, Item]]:
        """Step and batch of each `every`-th step that the plan serves from `step` on, without touching the iteration.

        Batches are built in the groups of an iteration without threads, at a fraction of the cost of `batch(step)`.
        """
        return self._every(as_whole("step", step, 0), as_whole("every", every))

    def _every(self, step: int, every: int) -> Iterator[tuple[int, Item]]:
        ahead = self._fetch_ahead(step, every)
        try:
            for steps in self._groups(step, every):
                for stack in self._stacks(steps, ahead):
                    yield from ((step, batch) for step, batch, _ in self._unstack(stack))
        finally:
            if ahead is not None:
                ahead.close()

    def _fetch_ahead(self, step: int, every: int = 1) -> Ahead | None:
        """Begin to fetch what the steps from `step` on read, where a store is not on this machine."""
        frames = self._assembler.fetched
        if frames is None:
            return None
        lists = joined(self._groups(step, every), lambda first: self._most_located(first, every))
        return FetchAhead(frames, lists, self._locate, self._assembler.touched, self._readahead_bytes)

    def _fetched_from(self, step: int) -> Ahead | None:
        """What fetches ahead of an iteration from `step` on: as it was begun before, if it was."""
        if self._foreseen is None or self._foreseen[0] != step:
            self._stop_fetching()
            if ahead := self._fetch_ahead(step):
                self._foreseen = step, ahead
        return None if self._foreseen is None else self._foreseen[1]

    def _foresee(self) -> None:
        """Fetch before the first batch is asked for. Without threads a loader may be read by other processes alone."""
        if self._threads:
            self._fetched_from(self.step)

    def _stop_fetching(self, wait: bool = False) -> None:
        if self._foreseen is not None:
            self._foreseen[1].close(wait)
            self._foreseen = None

    def _stacks(self, steps: range, ahead: Ahead | None = None) -> Iterator[Stack]:
        if ahead is None:
            return self._assembler.fill(self._locate(steps))
        located, places = ahead.located(steps)
        ahead.reached(steps.start)
        self._assembler.reached(self._all_read(steps.start))
        return self._assembler.fill(located, places)

    def _all_read(self, step: int) -> int:
        """The step before which nothing is being read any more when the group at `step` begins."""
        steps, ahead = self._group_size(step)
        return max(step - steps * ahead, 0)

    def _locate(self, steps: range) -> Located:
        """Where the tokens of evenly spaced steps of one segment lie, their order computed at once."""
        segment = self.plan.segment(steps.start)
        everyones = self._order.samples(steps)
        own, rows = self._partition.own(everyones, segment.batch_size), self._partition.rows(segment.batch_size)
        return self._assembler.locate(Group(steps, segment, own, rows, self._assembler.widths(segment, everyones)))

    def _unstack(self, stack: Stack) -> Iterator[tuple[int, Item, Tally]]:
        return zip(stack.steps, self._as_batches(stack.arrays), stack.tallies, strict=True)

    @abstractmethod
    def _as_batches(self, arrays: Batch) -> Iterator[Item]:
        """The batches of a stack, as this loader gives them."""

    def _group_size(self, step: int) -> GroupSize:
        segment, assembler = self.plan.segment(step), self._assembler
        if segment.from_step not in self._sizes:  # which is asked several times a group
            row_bytes = assembler.filler.bytes_per_row(segment.seq_len)
            rows, most = self._partition.rows(segment.batch_size), assembler.group_rows(segment.seq_len)
            found = group_size(rows, row_bytes, most, self._readahead_bytes, self._threads)
            self._sizes[segment.from_step] = found
        return self._sizes[segment.from_step]

    def _most_located(self, step: int, every: int) -> int:
        """How many of each `every`-th step from `step` on, all of one segment, are located at once."""
        segment = self.plan.segment(step)
        steps = max(1, self._assembler.group_rows(segment.seq_len) // self._partition.rows(segment.batch_size))
        return steps if segment.to_step is None else min(steps, -(-(segment.to_step - step) // every))

    def _groups(self, step: int, every: int = 1) -> Iterator[range]:
        return groups_of(self.plan, step, lambda first: self._group_size(first).steps, every)

    def __iter__(self) -> Iterator[Item]:
        """Batches from `step` on; a step set while iterating (by seek or load_state_dict) takes effect at once."""
        expected = -1
        while True:
            if self._owner != os.getpid():
                self._reset()
                expected = -1
            if expected != self.step or self._built is None:
                self._built = self._restart()
            found = self._next(self._built)
            if found is None:
                return
            step, batch = found
            self.step = expected = step + 1
            yield batch

    def _restart(self) -> Iterator[tuple[int, Item, Tally]]:
        """What is built from `step` on, by threads if there are to be any."""
        self._stop_reading()
        ahead = self._fetched_from(self.step)
        if ahead is not None:
            self._foreseen = _TAKEN, ahead
        groups, build = self._groups(self.step), partial(self._stacks, ahead=ahead)
        if self._threads and (self.plan.total_steps is None or self.step < self.plan.total_steps):
            depth = self._group_size(self.step).ahead
            self._ahead = ReadAhead(lambda steps: list(build(steps)), groups, self._threads, depth)
            stacks: Iterator[Stack] = iter(self._ahead)
        else:
            stacks = itertools.chain.from_iterable(map(build, groups))
        self._began = self._began or time.perf_counter()
        return itertools.chain.from_iterable(map(self._unstack, stacks))

    def _next(self, built: Iterator[tuple[int, Item, Tally]]) -> tuple[int, Item] | None:
        began = time.perf_counter()
        found = next(built, None)
        waited = time.perf_counter() - began
        self._waited += waited
        if found is None:
            self.close(wait=True)
            return None
        step, batch, tally = found
        self._tally.add(tally)
        self._batches += 1
        if self._observers:
            self._tell(step, tally.tokens, waited)
        return step, batch

    def _recorded(self) -> tuple[Plan | None, int, int]:
        return self.plan, self.rank, self.world_size

    def seek(self, step: int) -> None:
        """Go on at another step."""
        step = as_whole("step", step, None)
        if step < 0 or (self.plan.total_steps is not None and step > self.plan.total_steps):
            raise ConfigError(f"Step {step} is outside the plan, which has {self.plan.total_steps} steps.")
        self.step = step
        self._foresee()

    def state_dict(self) -> State:
        """The state to keep with a checkpoint: JSON, under 1 KB, the same on every rank."""
        return make_state(self.plan, self.step)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where `state` was taken; any plan that is equal before that step is accepted, no other."""
        self.step = check_state(self.plan, state)
        self._foresee()

    def stats(self) -> dict[str, float]:
        """Since iteration began: batches and tokens of this rank, tokens/s, time waited for data, and what was cut.

        Where a store is not on this machine also what this process has fetched since the loader was made: requests and
        those made again, bytes, and what was found in the cache.
        """
        elapsed = time.perf_counter() - self._began if self._began else 0.0
        return {
            "batches": self._batches,
            "tokens": self._tally.tokens,
            "seconds": elapsed,
            "tokens_per_second": self._tally.tokens / elapsed if elapsed else 0.0,
            "waited_seconds": self._waited,
            "waited_share": self._waited / elapsed if elapsed else 0.0,
            "readahead": sum(len(stack.steps) for stack in self._ahead.ready()) if self._ahead else 0,
            **vars(self._tally),
            **(traffic.since(self._traffic) if self._assembler.fetched else {}),
        }

    def close(self, wait: bool = False) -> None:
        """Stop the threads; iterating again starts new ones. Leaving a `with` waits until they have ended, too."""
        self._stop_reading(wait)
        self._stop_fetching(wait)
        if self._record is not None:
            self._record.close()

    def _stop_reading(self, wait: bool = False) -> None:
        self._built = None
        if self._ahead is not None:
            self._ahead.close(wait)
            self._ahead = None


class Loader(PlanLoader[Batch]):
    """Yields dicts of numpy arrays; `step` is the next step to serve, `served` how many have been.

    keys: more arrays than input_ids and sample_ids: labels, doc_ids, position_ids, cu_seqlens, attention_mask. threads:
    readers ahead of the loop, 0 reads in the loop itself. readahead_bytes bounds the batches held ready (at least one a
    thread), and what is fetched before it is needed of stores that are not on this machine. max_docs: columns of
    cu_seqlens, seq_len // 64 by default. pad_to_multiple_of: under cut="pad", batches are as wide as the longest row of
    the global batch, rounded up to a multiple of this (1: just that), instead of seq_len.
    Files and threads are opened lazily in each process.
    """

    def _as_batches(self, arrays: Batch) -> Iterator[Batch]:
        return unstacked(arrays)
