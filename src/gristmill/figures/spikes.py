"""The steps of a run whose loss stands out, and the documents behind them.

A loss is compared with the median of the SHORT steps before it, which follows a loss that falls. How far losses are
from that median is noted for WINDOW steps: this one stands out if it is more than THRESHOLD deviations above the usual
distance. A deviation is 1.4826 times the median distance from the usual one (for a bell curve, one standard deviation),
and at least 0.2 % of the loss. Medians do not move for a spike, so that one does not hide the next.

One bad row of a large batch hardly moves its mean. Where losses of rows were told, the highest of each step is compared
with those before it in the same way: the highest of many scatters upwards, so that it needs ROW_THRESHOLD deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gristmill.core.arrays import Ints, Mask
from gristmill.core.errors import ConfigError
from gristmill.figures.funnel import NO_RULES
from gristmill.figures.served import Floats, Run
from gristmill.order.plan import Plan
from gristmill.order.trace import TraceRow
from gristmill.places.door import address_of
from gristmill.store.manifest import read_manifest
from gristmill.store.reader import Store

SHORT, WINDOW, LEAST, THRESHOLD, ROW_THRESHOLD = 16, 128, 32, 6.0, 10.0
_MOST_SPIKES, _MOST_SUSPECTS = 20, 20
_BELL, _LEAST_DEVIATION = 1.4826, 0.002
# Windows that are looked at together: 64 MB of them.
_TOGETHER = 1 << 16
_SHOWN_TEXT = 100


@dataclass(frozen=True)
class Spike:
    """A step, its loss and what that would usually be, so many deviations apart.

    of: "step" where the step's own loss stands out, "row" where only the highest of its rows does, whose loss it is.
    rows: those of the batch whose own loss stands out from the others'; none where losses of rows are not known, and
    then all documents of the step may be behind it.
    """

    step: int
    loss: float
    usual: float
    deviations: float
    of: Literal["step", "row"]
    rows: Sequence[int]
    documents: Sequence[TraceRow]


@dataclass(frozen=True)
class Suspect:
    """A document that may be behind spikes: its part in them, and what it is.

    suspicion: the deviations of its spikes, each divided among the documents that may be behind it. passed: the rules
    that kept it when its store was made.
    """

    doc_id: str
    source: str
    steps: Sequence[int]
    suspicion: float
    origin: str
    passed: Sequence[str]
    text: str


@dataclass(frozen=True)
class Spikes:
    """The highest spikes of a run first, and the most suspicious documents first; of how many steps with a loss."""

    steps: int
    window: int
    threshold: float
    row_threshold: float
    spikes: Sequence[Spike]
    suspects: Sequence[Suspect]


def find_spikes(run: Run) -> Spikes:
    """The spikes of a run as far as it is recorded, at most 20, and at most 20 documents behind them."""
    served = run.served()
    if not served.told.any():
        raise ConfigError(
            f"{run.record} has no losses: tell them by loader.record_loss(loss) in the training loop, after each step."
        )
    high = _highest(
        _judged(served.loss, served.told, "step", THRESHOLD),
        _judged(served.highest_loss, np.isfinite(served.highest_loss), "row", ROW_THRESHOLD),
    )
    rows = run.row_losses([int(served.step[i]) for i, _ in high])
    spikes = [_spike(run.plan, int(served.step[i]), i, judged, rows) for i, judged in high]
    return Spikes(int(served.told.sum()), WINDOW, THRESHOLD, ROW_THRESHOLD, spikes, _suspects(run.plan, spikes))


@dataclass(frozen=True, eq=False)
class _Judged:
    """A loss of each step, what it would usually be, and how many deviations it is above that; 0 where not known."""

    loss: Floats
    usual: Floats
    deviations: Floats
    of: Literal["step", "row"]
    limit: float

    @property
    def high(self) -> Mask:
        return self.deviations > self.limit


def _judged(losses: Floats, known: Mask, of: Literal["step", "row"], limit: float) -> _Judged:
    usual, deviations = np.zeros(len(losses)), np.zeros(len(losses))
    usual[known], deviations[known] = standing_out(losses[known])
    return _Judged(losses, usual, deviations, of, limit)


def _highest(steps: _Judged, rows: _Judged) -> list[tuple[int, _Judged]]:
    """The places of the highest spikes, those first that are most times their limit, with what stands out there."""
    by_row = rows.high & ~steps.high
    times = np.where(by_row, rows.deviations / rows.limit, steps.deviations / steps.limit)
    high = np.flatnonzero(steps.high | by_row)
    high = high[np.argsort(-times[high], kind="stable")][:_MOST_SPIKES]
    return [(i, rows if by_row[i] else steps) for i in high.tolist()]


def standing_out(losses: Floats) -> tuple[Floats, Floats]:
    """What each loss would usually be, and how many deviations it is above that; 0 for the first LEAST."""
    finite = np.isfinite(losses)
    calm = np.where(finite, losses, losses[finite].max() if finite.any() else 0.0)
    usual, deviation = np.copy(calm), np.ones(len(calm))
    if len(calm) > LEAST:
        before = _medians(calm, SHORT)
        usual[LEAST:], deviation[LEAST:] = _expected(before, calm[SHORT:] - before)
    return usual, np.where(finite, (calm - usual) / deviation, np.inf)


def _medians(values: Floats, size: int) -> Floats:
    """Of each value from `size` on the median of the `size` before it."""
    windows = sliding_window_view(values[:-1], size)
    return np.concatenate([np.median(windows[at : at + _TOGETHER], axis=1) for at in range(0, len(windows), _TOGETHER)])


def _expected(before: Floats, distance: Floats) -> tuple[Floats, Floats]:
    """From LEAST on: the median before it, moved as losses usually are from theirs, and the deviation of that."""
    first = LEAST - SHORT
    moved, deviation = np.empty(len(distance)), np.empty(len(distance))
    for i in range(first, min(WINDOW, len(distance))):
        moved[i], deviation[i] = (values[0] for values in _usual(distance[None, :i]))
    if len(distance) > WINDOW:
        windows = sliding_window_view(distance[:-1], WINDOW)
        for at in range(0, len(windows), _TOGETHER):
            here = slice(WINDOW + at, WINDOW + at + _TOGETHER)
            moved[here], deviation[here] = _usual(windows[at : at + _TOGETHER])
    usual = (before + moved)[first:]
    return usual, np.maximum(deviation[first:], np.maximum(_LEAST_DEVIATION * np.abs(usual), 1e-12))


def _usual(windows: Floats) -> tuple[Floats, Floats]:
    """The median of each row, and 1.4826 times the median distance from it."""
    median = np.median(windows, axis=1)
    return median, _BELL * np.median(np.abs(windows - median[:, None]), axis=1)


def _spike(plan: Plan | None, step: int, i: int, judged: _Judged, losses: Mapping[int, Floats]) -> Spike:
    rows = _high_rows(losses[step]).tolist() if step in losses else []
    traced = [] if plan is None or plan.skips.covers(step) else plan.trace(step)
    documents = [found for found in traced if not found.excluded and (not rows or found.row in rows)]
    figures = float(judged.loss[i]), float(judged.usual[i]), float(judged.deviations[i])
    return Spike(step, *figures, judged.of, rows, documents)


def _high_rows(losses: Floats) -> Ints:
    """The rows that stand out from the others of their batch, or at least the highest one."""
    known = losses[np.isfinite(losses)]
    if not len(known):
        return np.arange(0)
    median, deviation = (float(values[0]) for values in _usual(known[None, :]))
    limit = median + THRESHOLD * max(deviation, _LEAST_DEVIATION * abs(median))
    high = np.flatnonzero((losses > limit) | np.isinf(losses))
    return high if len(high) else np.array([int(np.nanargmax(losses))])


def _suspects(plan: Plan | None, spikes: Sequence[Spike]) -> list[Suspect]:
    """The documents of all spikes, those first that have the largest part in them."""
    part: dict[tuple[str, str], float] = {}
    steps: dict[tuple[str, str], list[int]] = {}
    for spike in spikes:
        documents = dict.fromkeys((found.source, found.doc_id) for found in spike.documents)
        for document in documents:
            part[document] = part.get(document, 0.0) + spike.deviations / len(documents)
            steps.setdefault(document, []).append(spike.step)
    ranked = sorted(part, key=lambda document: -part[document])[:_MOST_SUSPECTS]
    stores = {} if plan is None else {source.name: source.store for source in plan.sources}
    return [_suspect(cast(Store, stores[key[0]]), *key, sorted(steps[key]), part[key]) for key in ranked]


def _suspect(store: Store, source: str, doc_id: str, steps: list[int], suspicion: float) -> Suspect:
    document = store.document(store.locate([doc_id])[doc_id][0])
    text = document.text[:_SHOWN_TEXT] if store.facts.tokenizer else ""
    return Suspect(doc_id, source, steps, suspicion, document.source, rules_passed(store, document.source), text)


def rules_passed(store: Store, origin: str) -> list[str]:
    """The rules that documents of a source have passed when their store was made; none are known of foreign files."""
    if not store.owned:
        return []
    split = store.facts.stores[0] if store.facts.stores else store.facts.path
    funnel = read_manifest(address_of(split).parent)["funnel"]
    stages = list(dict.fromkeys(row["stage"] for row in funnel if row["source"] == origin))
    return [stage for stage in stages[1:] if stage not in NO_RULES]
