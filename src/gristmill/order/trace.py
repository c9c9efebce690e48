"""Which documents were in step N, and in which steps a document is: the order read both ways, without training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError

if TYPE_CHECKING:
    from gristmill.order.phases import Segment
    from gristmill.order.plan import Plan


class _Record:
    """Fields by attribute or by name: `row.doc_id` and `row["doc_id"]`."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


@dataclass(frozen=True)
class TraceRow(_Record):
    """Tokens [start, end) of a document, as row `row` of the global batch holds them."""

    row: int
    source: str
    doc_id: str
    start: int
    end: int
    excluded: bool = False


@dataclass(frozen=True)
class Seen(_Record):
    """A place in the run where a document is seen: step, row of the global batch, source and its epoch."""

    step: int
    row: int
    source: str
    epoch: int


def trace(plan: Plan, step: int) -> list[TraceRow]:
    """See `Plan.trace`."""
    samples, seq_len = plan.samples(step), plan.segment(step).seq_len
    return [
        traced
        for row, (k, _, sample) in enumerate(samples.tolist())
        for traced in sample_rows(plan, row, k, sample, seq_len, step)
    ]


def sample_rows(plan: Plan, row: int, k: int, sample: int, seq_len: int, step: int = 0) -> Iterator[TraceRow]:
    """What a sample of source k holds, as row `row` of a step."""
    source = plan.sources[k]
    for document, start, end in source.cut.spans(sample, seq_len):
        first, _ = source.store.document_span(document)
        out = bool(plan.exclusions) and plan.exclusions.covering(k, first + start, step)
        yield TraceRow(row, source.name, source.store.document_id(document), start, end, out)


def find(plan: Plan, doc_id: str, until: int | None = None) -> list[Seen]:
    """See `Plan.find`."""
    until = plan.total_steps if until is None else until
    if until is None:
        raise ConfigError("This plan is endless: say find(doc_id, until=STEP).")
    if plan.total_steps is not None:
        until = min(until, plan.total_steps)
    places = {k: source.store.locate([doc_id])[doc_id] for k, source in enumerate(plan.sources)}
    if not any(places.values()):
        raise ConfigError(f"The document {doc_id!r} is in none of the sources {', '.join(plan.names)}.")
    seen: set[Seen] = set()
    for k, documents in places.items():
        found = sightings(plan, k, np.array(documents, dtype=np.int64), until)
        rows = np.stack([found.step, found.row, found.epoch], axis=1).tolist()
        seen.update(Seen(step, row, plan.names[k], epoch) for step, row, epoch in rows)
    return sorted(seen, key=lambda item: (item.step, item.row))


@dataclass(frozen=True, eq=False)
class Sightings:
    """Where documents of one source are seen: which of those that were asked for, step, row, epoch and sample."""

    which: Ints
    step: Ints
    row: Ints
    epoch: Ints
    sample: Ints


def sightings(plan: Plan, k: int, documents: Ints, until: int) -> Sightings:
    """All places before step `until` where a row has a token of documents of source k, skipped steps left out."""
    found = [part for segment in plan.segments for part in _seen(plan, segment, k, documents, until)]
    columns = np.concatenate([*found, np.empty((0, 5), np.int64)]).astype(np.int64)
    return Sightings(*(np.ascontiguousarray(column) for column in columns.T))


def _seen(plan: Plan, segment: Segment, k: int, documents: Ints, until: int) -> Iterator[Ints]:
    """(found, 5) of one segment, epoch by epoch."""
    if segment.from_step >= until or not segment.mix.weights[k] or not len(documents):
        return
    source, lane = plan.sources[k], segment.lanes[k]
    here = np.flatnonzero(documents < source.store.documents_in(lane.shards))
    which, samples = source.cut.samples_of(documents[here], lane.order.samples, segment.seq_len)
    end = until if segment.to_step is None else min(until, segment.to_step)
    # One pass with a short last batch never serves what its slots would take from a second epoch.
    last_epoch = lane.position(int(segment.given(end)[k]))[0] if plan.options.drop_last else 0
    for epoch in range(lane.epoch, last_epoch + 1):
        step, row, place = segment.steps_of(k, epoch, lane.order.index_of(epoch, samples), until).T
        served = ~plan.skips.cover(step)
        columns = (here[which[place]], step, row, np.full_like(step, epoch), samples[place])
        yield np.stack(columns, axis=1)[served]


def check_epochs(plan: Plan, name: str, limit: int) -> None:
    """Refuse a plan in which a source would begin epoch `limit`, before training starts."""
    k = plan.names.index(name)
    assert plan.total_steps is not None
    last = plan.segments[-1]
    epoch, index = last.lanes[k].position(int(last.given(plan.total_steps)[k]))
    if (epoch, index) <= (limit, 0):
        return
    runs_out = [s.steps_of(k, limit, np.array([0]), plan.total_steps) for s in plan.segments]
    steps = [int(found[0, 0]) for found in runs_out if len(found)]
    at = f" It runs out at step {steps[0]:,}." if steps else ""
    raise ConfigError(
        f"Source {name!r} would be read {epoch + index / last.lanes[k].order.samples:.2f} times, "
        f"max_epochs allows {limit}.{at} Lower its weight or steps, or raise max_epochs."
    )
