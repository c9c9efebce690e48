"""A run: how it goes now, and a step of it as the model saw it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.figures.served import Run, Served
from gristmill.loader.loader import Loader
from gristmill.order.plan import Plan
from gristmill.order.trace import TraceRow
from gristmill.store.reader import Store

_RECENT_SECONDS = 60.0


@dataclass(frozen=True)
class MixFigures:
    """What a source has given of the samples so far, and what its weight asks for at this step."""

    source: str
    share: float
    target: float
    epochs: float


@dataclass(frozen=True)
class RunFigures:
    """A run as its record has it: rates are those of its last minute.

    step: the last one served, of `steps` (None: no end is known). seconds_left: at this pace, None without an end.
    silent_seconds: since something was recorded. hits, misses and fetched bytes are those of the processes since they
    began, where a store is not on this machine.
    """

    step: int
    steps: int | None
    tokens: int
    tokens_per_second: float
    steps_per_second: float
    waited_share: float
    seconds_left: float | None
    silent_seconds: float
    loss: float | None
    cache_hits: int
    cache_misses: int
    fetched_bytes: int
    mix: Sequence[MixFigures]


def run_figures(run: Run, now: float | None = None) -> RunFigures:
    """How a run goes."""
    served = run.served()
    last = int(served.step[-1])
    recent = _recent(served)
    seconds = float(served.at[-1] - served.at[recent][0]) if recent.stop - recent.start > 1 else 0.0
    after_first = slice(recent.start + 1, recent.stop)  # the first one's time began before the stretch did
    rate = (recent.stop - recent.start - 1) / seconds if seconds else 0.0
    steps = run.plan.total_steps if run.plan else None
    told = np.flatnonzero(served.told)
    return RunFigures(
        step=last,
        steps=steps,
        tokens=run.plan.tokens_before(last + 1) if run.plan else int(served.tokens.sum()),
        tokens_per_second=float(served.tokens[after_first].sum()) / seconds if seconds else 0.0,
        steps_per_second=rate,
        waited_share=min(float(served.waited[after_first].sum()) / seconds, 1.0) if seconds else 0.0,
        seconds_left=(steps - last - 1) / rate if steps is not None and rate else None,
        silent_seconds=max((time.time() if now is None else now) - float(served.at[-1]), 0.0),
        loss=float(served.loss[told[-1]]) if len(told) else None,
        **served.cache,
        mix=_mix(run.plan, last) if run.plan else [],
    )


def _recent(served: Served) -> slice:
    """The steps of the last minute; two at least, where there are two."""
    first = int(np.searchsorted(served.at, served.at[-1] - _RECENT_SECONDS))
    return slice(max(min(first, len(served) - 2), 0), len(served))


def _mix(plan: Plan, step: int) -> list[MixFigures]:
    weights = plan.segment(step).mix.weights
    sources = plan.forecast(step + 1).sources
    return [MixFigures(each.name, each.share, float(weight), each.epochs)
            for each, weight in zip(sources, weights, strict=True)]  # fmt: skip


@dataclass(frozen=True)
class StepRow:
    """A row of a batch: its text as the model saw it, its documents, and its loss where that was recorded."""

    row: int
    loss: float | None
    documents: Sequence[TraceRow]
    text: str


@dataclass(frozen=True)
class StepFigures:
    """A step of a run, whole: its loss where that was recorded."""

    step: int
    loss: float | None
    rows: Sequence[StepRow]


def step_figures(run: Run, step: int) -> StepFigures:
    """The batch of a step, decoded."""
    if run.plan is None:
        raise ConfigError(
            f"{run.folder} has no plan.json, as a stream has none. The documents of a stream's step are told by "
            "stream.trace(step, state), or `gristmill stream RECIPE --step N --state FILE`."
        )
    plan, traced = run.plan, run.plan.trace(step)
    batch = Loader(plan, threads=0).batch(step)["input_ids"]
    stores = [cast(Store, plan.sources[k].store) for k in plan.samples(step)[:, 0].tolist()]
    losses = run.row_losses([step]).get(step)
    rows = [
        StepRow(row, _known(losses, row), [found for found in traced if found.row == row], _text(store, ids))
        for row, (store, ids) in enumerate(zip(stores, batch, strict=True))
    ]
    served = run.served()
    at = np.flatnonzero((served.step == step) & served.told)
    return StepFigures(step, float(served.loss[at[0]]) if len(at) else None, rows)


def _known(losses: np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None, row: int) -> float | None:
    return None if losses is None or row >= len(losses) or np.isnan(losses[row]) else float(losses[row])


def _text(store: Store, ids: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    """What the ids spell; the ids themselves where no tokenizer is kept beside them."""
    return store.decode(ids) if store.facts.tokenizer else " ".join(map(str, ids.tolist()))
