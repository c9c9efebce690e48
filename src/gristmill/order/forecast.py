"""What a plan will have done after s steps, by arithmetic: nothing is read, no step is visited."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gristmill.core.errors import ConfigError

if TYPE_CHECKING:
    from gristmill.order.epochs import EpochOrder
    from gristmill.order.plan import Plan

_PAIRS = 1024


@dataclass(frozen=True)
class SourceForecast:
    """One source after the steps asked for.

    epochs: passes over its samples. passes: tokens served / tokens held. next_epoch_steps: the step at which each new
    epoch begins (the first eight). unread_tokens: left behind by phases. unserved_tokens: in no sample of an epoch.
    neighbours_apart: places between two samples that lie side by side, the median of 1,024 pairs: 1 without a shuffle,
    about 0.29 of the samples where they are shuffled at once, less with locality.
    """

    name: str
    samples: int
    share: float
    tokens: int
    epochs: float
    passes: float
    next_epoch_steps: list[int]
    unread_tokens: int
    unserved_tokens: int
    neighbours_apart: int


@dataclass(frozen=True)
class Forecast:
    """The exact realised mix after `step` steps, skipped ones counted as consumed."""

    step: int
    served_steps: int
    tokens: int
    sources: list[SourceForecast]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)


def forecast(plan: Plan, step: int | None = None) -> Forecast:
    """See `Plan.forecast`."""
    step = plan.total_steps if step is None else step
    if step is None:
        raise ConfigError("This plan is endless: say forecast(step).")
    if step < 1 or (plan.total_steps is not None and step > plan.total_steps):
        raise ConfigError(f"The plan has {plan.total_steps} steps: it cannot be forecast at step {step}.")
    rows = [_source(plan, k, step) for k in range(len(plan.sources))]
    total = sum(row.samples for row in rows)
    made = [replace(row, share=row.samples / total) for row in rows]
    return Forecast(step, plan.skips.served(step), plan.tokens_before(step), made)


def _source(plan: Plan, k: int, step: int) -> SourceForecast:
    """One source, its share among the others still open."""
    source = plan.sources[k]
    samples = tokens = unread = 0
    last = plan.segment(step - 1)
    for segment in plan.segments[: plan.segments.index(last) + 1]:
        given = int(segment.given(step if segment is last else segment.to_step or step)[k])
        samples, tokens = samples + given, tokens + given * segment.seq_len
        unread += segment.lanes[k].unread_tokens
    lane = last.lanes[k]
    epoch, index = lane.position(int(last.given(step)[k]))
    if plan.total_steps == step and not plan.options.drop_last:
        samples, epoch, index = lane.order.samples, 1, 0  # the rows that the last batch lacks are padding, not samples
        tokens = samples * last.seq_len
    return SourceForecast(
        name=source.name,
        samples=samples,
        share=0.0,
        tokens=tokens,
        epochs=epoch + index / lane.order.samples,
        passes=tokens / source.store.tokens_in(lane.shards),
        next_epoch_steps=epoch_starts(plan, k, min(epoch, 8), step),
        unread_tokens=unread,
        unserved_tokens=source.cut.unserved_tokens(lane.order.samples, lane.shards, last.seq_len),
        neighbours_apart=_neighbours_apart(lane.order),
    )


def _neighbours_apart(order: EpochOrder) -> int:
    if order.samples < 2:
        return 0
    samples = np.linspace(0, order.samples - 2, _PAIRS).astype(np.int64)
    return int(np.median(np.abs(order.index_of(0, samples + 1) - order.index_of(0, samples))))


def epoch_starts(plan: Plan, k: int, epochs: int, until: int) -> list[int]:
    """The steps before `until` at which epochs 1 to `epochs` of source k begin."""
    steps = []
    for epoch in range(1, epochs + 1):
        for segment in plan.segments:
            first = np.array([segment.lanes[k].index if epoch == segment.lanes[k].epoch else 0], dtype=np.int64)
            found = segment.steps_of(k, epoch, first, until)
            if len(found):
                steps.append(int(found[0, 0]))
                break
    return steps
