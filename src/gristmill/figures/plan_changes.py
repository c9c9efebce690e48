"""Two plans compared: from which step on they differ, and what each source gains."""

from __future__ import annotations

from dataclasses import dataclass

from gristmill.figures.plan import PlanFigures, plan_figures
from gristmill.order.plan import Plan


@dataclass(frozen=True)
class SourceGain:
    """Tokens and epochs of a source at the end of both runs; 0 where a plan has no such source."""

    name: str
    tokens_before: int
    tokens_after: int
    epochs_before: float
    epochs_after: float


@dataclass(frozen=True)
class PlanChanges:
    """`differ_from`: the first step whose batch differs, or that only one of them has; None where they are the same."""

    before_name: str
    after_name: str
    before: PlanFigures
    after: PlanFigures
    differ_from: int | None
    options: dict[str, tuple[object, object]]
    sources: list[SourceGain]


def plan_changes(before: Plan, after: Plan, before_name: str, after_name: str) -> PlanChanges:
    """Compare by the plans' own fingerprints up to a step, which checkpoints are checked by too."""
    old, new = plan_figures(before), plan_figures(after)
    keys = dict.fromkeys([*old.options, *new.options, "seed"])
    options = {key: (_option(old, key), _option(new, key)) for key in keys if _option(old, key) != _option(new, key)}
    names = dict.fromkeys([*before.names, *after.names])
    gains = [_gain(name, old, new) for name in names]
    return PlanChanges(before_name, after_name, old, new, differ_from(before, after), options, gains)


def differ_from(before: Plan, after: Plan) -> int | None:
    """The first step that differs, by bisection over the fingerprints of what comes before it."""
    ends = [plan.total_steps for plan in (before, after)]
    known = [end for end in ends if end is not None]
    low, high = 0, min(known) if known else 1 << 40
    if before.prefix_fingerprint(high) == after.prefix_fingerprint(high):
        return None if ends[0] == ends[1] else high
    while high - low > 1:
        middle = (low + high) // 2
        if before.prefix_fingerprint(middle) == after.prefix_fingerprint(middle):
            low = middle
        else:
            high = middle
    return low


def _option(figures: PlanFigures, key: str) -> object:
    return figures.seed if key == "seed" else figures.options.get(key)


def _gain(name: str, old: PlanFigures, new: PlanFigures) -> SourceGain:
    own = [next((row for row in figures.forecast.sources if row.name == name), None) for figures in (old, new)]
    return SourceGain(
        name,
        *(row.tokens if row else 0 for row in own),
        *(row.epochs if row else 0.0 for row in own),
    )
