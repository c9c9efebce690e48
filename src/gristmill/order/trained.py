"""How many tokens of each document a run has been trained on up to a step: by arithmetic, no step is visited.

A source gives its samples epoch by epoch in a computed order, so what it has given before a step are whole epochs, and
stretches of places of others. A sample was trained on as often as its place lies in one of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.order.epochs import EpochOrder

if TYPE_CHECKING:
    from gristmill.order.phases import Lane, Segment
    from gristmill.order.plan import Plan


@dataclass(frozen=True)
class Stretch:
    """Places [low, high) of an epoch of one source, which served steps have taken."""

    order: EpochOrder
    shards: int
    seq_len: int
    epoch: int
    low: int
    high: int


def stretches(plan: Plan, k: int, until: int) -> list[Stretch]:
    """What source k has given to the steps before `until`, those that the plan skips left out."""
    found: list[Stretch] = []
    for segment in plan.segments:
        if segment.mix.weights[k] and segment.from_step < until:
            lane = segment.lanes[k]
            for first, end in _served(plan, segment, until):
                given = int(segment.given(first)[k]), int(segment.given(end)[k])
                found.extend(_by_epoch(lane, segment.seq_len, *given))
    # One pass with a short last batch never serves what its slots would take from a second epoch.
    return found if plan.options.drop_last else [stretch for stretch in found if stretch.epoch == 0]


def _served(plan: Plan, segment: Segment, until: int) -> Iterator[tuple[int, int]]:
    """The ranges of steps of a segment that are served before `until`."""
    end = until if segment.to_step is None else min(until, segment.to_step)
    step = plan.skips.next_served(segment.from_step)
    while step < end:
        stop = plan.skips.first_skipped(step, end)
        yield step, stop
        step = plan.skips.next_served(stop)


def _by_epoch(lane: Lane, seq_len: int, first: int, end: int) -> Iterator[Stretch]:
    """The samples [first, end) that a lane gives, as places of its epochs."""
    while first < end:
        epoch, index = lane.position(first)
        stop = min(index + end - first, lane.order.samples)
        yield Stretch(lane.order, lane.shards, seq_len, epoch, index, stop)
        first += stop - index


def times_taken(given: list[Stretch], samples: Ints) -> Ints:
    """How often each of the samples was given; all stretches are of one order."""
    times = np.zeros(len(samples), np.int64)
    for epoch, own in groupby(sorted(given, key=lambda stretch: stretch.epoch), lambda stretch: stretch.epoch):
        parts = list(own)
        if parts[0].high - parts[0].low == parts[0].order.samples:
            times += 1
            continue
        places = parts[0].order.index_of(epoch, samples)
        for part in parts:
            times += (part.low <= places) & (places < part.high)
    return times


def trained_tokens(plan: Plan, k: int, documents: Ints, until: int) -> Ints:
    """Tokens of each of these documents of source k that served rows held before step `until`; excluded ones are out.

    A token that was served twice counts twice. Padding and truncated tokens do not count.
    """
    tokens = _counted(plan, k, documents, until)
    for from_step, here in excluded(plan, k, documents):
        if from_step < until:
            tokens[here] = np.minimum(tokens[here], _counted(plan, k, documents[here], from_step))
    return tokens


def excluded(plan: Plan, k: int, documents: Ints) -> Iterator[tuple[int, Ints]]:
    """From which step on which of these documents of source k are left out."""
    own = plan.exclusions.source == k
    if not own.any() or not len(documents):
        return
    starts, _ = plan.sources[k].store.document_spans(documents)
    for from_step in np.unique(plan.exclusions.from_step[own]).tolist():
        out = plan.exclusions.start[own & (plan.exclusions.from_step == from_step)]
        here = np.flatnonzero(np.isin(starts, out))
        if len(here):
            yield from_step, here


def _counted(plan: Plan, k: int, documents: Ints, until: int) -> Ints:
    source, tokens = plan.sources[k], np.zeros(len(documents), np.int64)
    alike: dict[tuple[EpochOrder, int, int], list[Stretch]] = {}
    for stretch in stretches(plan, k, until):
        alike.setdefault((stretch.order, stretch.shards, stretch.seq_len), []).append(stretch)
    for (order, shards, seq_len), given in alike.items():
        here = np.flatnonzero(documents < source.store.documents_in(shards))
        which, samples, held = source.cut.held(documents[here], order.samples, seq_len)
        distinct, back = np.unique(samples, return_inverse=True)
        times = times_taken(given, distinct)[back]
        tokens[here] += np.bincount(which, held * times, len(here)).astype(np.int64)
    return tokens
