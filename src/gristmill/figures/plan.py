"""Plans, their batches, and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gristmill.core.errors import StateError
from gristmill.loader.fill import Batch
from gristmill.loader.plan_file import load_plan
from gristmill.loader.state import as_state, check_state
from gristmill.order.forecast import Forecast
from gristmill.order.mix import weight_text
from gristmill.order.phases import Segment
from gristmill.order.plan import Plan
from gristmill.order.trace import TraceRow

# How far an endless plan is looked at unless it is said.
_ENDLESS_STEPS = 1000
# How much of a batch is looked at.
_ROWS, _TOKENS = 4, 24


@dataclass(frozen=True)
class PhaseFigures:
    """A phase with its exact weights; the last one of an endless plan ends nowhere."""

    from_step: int
    to_step: int | None
    seq_len: int
    batch_size: int
    weights: Mapping[str, str]


@dataclass(frozen=True)
class PlanFigures:
    """A plan: its options and phases, and what it has served at its end, or after the steps that were asked for."""

    fingerprint: str
    steps: int | None
    seed: int
    options: Mapping[str, object]
    phases: Sequence[PhaseFigures]
    forecast: Forecast


def plan_figures(plan: Plan, until: int | None = None) -> PlanFigures:
    """The figures of a plan; an endless one is looked at for 1,000 steps, if `until` says nothing else."""
    return PlanFigures(
        fingerprint=plan.fingerprint,
        steps=plan.total_steps,
        seed=plan.seed,
        options={key: value for key, value in plan.options.to_dict().items() if key != "phases"},
        phases=[_phase(plan, segment) for segment in plan.segments],
        forecast=plan.forecast(_ENDLESS_STEPS if until is None and not plan.total_steps else until),
    )


def _phase(plan: Plan, segment: Segment) -> PhaseFigures:
    weights = dict(zip(plan.names, map(weight_text, segment.mix.weights), strict=True))
    return PhaseFigures(segment.from_step, segment.to_step, segment.seq_len, segment.batch_size, weights)


def state_figures(state: Mapping[str, object], plan: str | None) -> Mapping[str, object]:
    """What a checkpoint holds, and that it belongs to the plan in the file `plan`, if one is given."""
    if "lanes" in state:
        if plan is not None:
            raise StateError("This is a state of a stream, and not of a plan: give no --plan.")
        from gristmill.streams.state import as_stream_state  # streams take 0.2 s to import

        return as_stream_state(state)
    known = as_state(state)
    if plan is None:
        return known
    check_state(load_plan(Path(plan)), known)
    return {**known, "belongs to": plan}


@dataclass(frozen=True)
class BatchRow:
    """How a row of a batch begins, as ids and as text, and the documents that it holds."""

    row: int
    tokens: Sequence[int]
    text: str
    documents: Sequence[TraceRow]


def batch_figures(plan: Plan, batch: Batch, step: int, decode: Callable[[Sequence[int]], str]) -> list[BatchRow]:
    """The first rows of the global batch of a step."""
    ids, traced = batch["input_ids"][:_ROWS, :_TOKENS].tolist(), plan.trace(step)
    return [BatchRow(row, tokens, decode(tokens), [found for found in traced if found.row == row])
            for row, tokens in enumerate(ids)]  # fmt: skip
