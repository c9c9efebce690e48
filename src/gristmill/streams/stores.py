"""Stores beside streams in a mix: rows of a plan over them, laid over the rows that streams leave empty.

The mix says of every row of the run how many rows its source has given before it; of a store that is the number of its
sample in the order that a plan of the same name, cut and seed has. So a store has no place to keep: the step is enough.
And what comes next is known, so that the bytes of stores that are not on this machine are fetched ahead.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.loader.batch import Assembler, Group, Located, Tally
from gristmill.loader.fetchahead import FetchAhead
from gristmill.loader.fill import Batch
from gristmill.loader.groups import joined
from gristmill.order.mix import Mix
from gristmill.order.plan import Plan
from gristmill.places.door import place_at
from gristmill.store.opening import as_store
from gristmill.streams.assembly import Stack
from gristmill.tokenize.definition import content_fingerprint
from gristmill.tokenize.tokenizer import Tokenizer

# What is fetched ahead of the rows that need it, and the tokens of steps that are asked for together.
_READAHEAD_BYTES = 32 << 20
_GROUP_TOKENS = 1 << 20
_BUFFER_BYTES = 2 * _READAHEAD_BYTES
# Of each row of so many steps from a step on: its source, and how many rows that has given before.
Labels = Callable[[int, int], tuple[Ints, Ints]]


def check_store(name: str, store: object, tokenizer: Tokenizer) -> None:
    """Refuse a store whose tokens mean something else than those of the streams."""
    opened = as_store(f"The store {name!r}", store)
    if opened.eos != tokenizer.eos:
        raise ConfigError(
            f"Documents of the store {name!r} end with {opened.eos}, those of the streams with {tokenizer.eos}: open "
            "bare token files with eos=, or use the store's tokenizer."
        )
    kept = opened.facts.tokenizer
    if not kept or not place_at(kept).is_file():
        return
    if content_fingerprint(json.loads(place_at(kept).read()), tokenizer.eos) != tokenizer.fingerprint:
        raise ConfigError(f"Sources of one mix have one tokenizer: that of the store {name!r} is another.")


class Picked(NamedTuple):
    """Rows of a group that are of stores, and their samples: store, epoch and sample of each."""

    rows: Ints
    samples: Ints


class Ahead(NamedTuple):
    """Rows of coming steps that are of stores: the place of each one's step, and where their tokens lie."""

    steps: Ints
    located: Located


class StoreRows:
    """The rows of a plan's stores by their numbers; of the sources of `mix`, its stores come last.

    keys are those of the streams' batches, multiple what widths are rounded to where rows are padded to the longest.
    """

    def __init__(self, plan: Plan, mix: Mix, batch_size: int, keys: Sequence[str], max_docs: int | None,
                 multiple: int | None) -> None:  # fmt: skip
        self._first, self._keys, self._multiple = len(mix.weights) - len(plan.sources), tuple(keys), multiple
        self._segment = plan.segments[0]
        self._assembler = Assembler(plan, keys, max_docs, _BUFFER_BYTES, pad_to_multiple_of=multiple)
        self._mixed = replace(self._segment, mix=mix, batch_size=batch_size)
        self._ahead: FetchAhead[Ahead] | None = None

    def fetch_from(self, step: int, lanes: int, labels: Labels) -> None:
        """Begin to fetch what the rows of `lanes` read from `step` on, where stores are not on this machine."""
        frames = self._assembler.fetched
        if frames is None:
            return
        self._assembler.say_cost()
        tokens, rows = lanes * self._segment.seq_len, self._assembler.group_rows(self._segment.seq_len)
        groups = _doubling(step, max(_GROUP_TOKENS // tokens, 1))
        lists = joined(groups, lambda first: max(rows // lanes, 1))
        located = functools.partial(self._located, lanes, labels)
        self._ahead = FetchAhead(frames, lists, located, self._touched, _READAHEAD_BYTES)

    def _located(self, lanes: int, labels: Labels, steps: range) -> Ahead:
        picked = self.picked(*labels(steps.start, len(steps)))
        group = Group(range(len(picked.rows)), self._segment, picked.samples, 1)
        return Ahead(picked.rows // lanes, self._assembler.locate(group))

    def _touched(self, found: Ahead) -> tuple[Ints, Ints]:
        extents, rows = self._assembler.touched(found.located)
        return extents, found.steps[rows]

    def reached(self, step: int) -> None:
        """Rows of `step` are about to be filled, and none of those before it is needed any more."""
        self._assembler.reached(step, self._mixed)
        if self._ahead is not None:
            self._ahead.reached(step)

    def close(self, wait: bool = False) -> None:
        """Fetch nothing more."""
        if self._ahead is not None:
            self._ahead.close(wait)

    def picked(self, sources: Ints, ordinals: Ints) -> Picked:
        """Those rows of a group that are of stores, given what each is of and which of its source's rows it is."""
        rows = np.flatnonzero(sources >= self._first)
        samples = np.zeros((len(rows), 3), np.int64)
        samples[:, 0] = sources[rows] - self._first
        for k, lane in enumerate(self._segment.lanes):
            own = np.flatnonzero(samples[:, 0] == k)
            samples[own, 1], index = np.divmod(ordinals[rows[own]], lane.order.samples)
            for epoch in np.unique(samples[own, 1]).tolist():
                here = samples[own, 1] == epoch
                samples[own[here], 2] = lane.order.samples_at(epoch, index[here])
        return Picked(rows, samples)

    def least(self, picked: Picked, lanes: int, steps: int) -> Ints | None:
        """The columns that each step needs for its rows of stores, where rows are padded to the longest."""
        widths = self._assembler.widths(self._segment, picked.samples) if len(picked.rows) else None
        if widths is None:
            return None
        found = np.zeros(steps, np.int64)
        np.maximum.at(found, picked.rows // lanes, widths)
        return found

    def over(self, stacks: Iterator[Stack], picked: Picked) -> Iterator[Stack]:
        """The stacks of a group with their rows of stores filled."""
        begin = 0
        for stack in stacks:
            end = begin + stack.arrays["sample_ids"].size // 3
            here = slice(*np.searchsorted(picked.rows, [begin, end]).tolist())
            self._lay_over(stack, picked.rows[here] - begin, picked.samples[here])
            begin = end
            yield stack

    def _lay_over(self, stack: Stack, rows: Ints, samples: Ints) -> None:
        """Fill `rows` of a stack, counted through all of its steps, which were padding until now."""
        arrays = {key: array.reshape(-1, array.shape[-1]) for key, array in stack.arrays.items()}
        arrays["sample_ids"][rows] = samples
        arrays["sample_ids"][rows, 0] += self._first
        steps, most = rows // stack.arrays["input_ids"].shape[1], self._assembler.group_rows(self._segment.seq_len)
        for at in range(0, len(rows), most):
            here = slice(at, at + most)
            tallies = self._fill(arrays, rows[here], samples[here])
            for step, tally in zip(steps[here].tolist(), tallies, strict=True):
                stack.tallies[step].add(replace(tally, tokens=0, padded_tokens=tally.padded_tokens - tally.tokens))

    def _fill(self, arrays: Batch, rows: Ints, samples: Ints) -> list[Tally]:
        """Write these rows, a step of a group each; what is counted of each."""
        widths = None if self._multiple is None else np.full(len(rows), arrays["input_ids"].shape[1])
        group, tallies = Group(range(len(rows)), self._segment, samples, 1, widths), list[Tally]()
        for made in self._assembler.fill(self._assembler.locate(group)):
            own = rows[made.steps.start : made.steps.stop]
            for key in self._keys:
                arrays[key][own] = made.arrays[key][:, 0]
            tallies += made.tallies
        return tallies


def _doubling(step: int, most: int) -> Iterator[range]:
    """Groups of steps without end: one step, then two, up to `most`, so that the first row waits for few others."""
    size = 1
    while True:
        yield range(step, step + size)
        step, size = step + size, min(2 * size, most)
