"""A plan over its whole run: what it serves between points of it, and what a node fetches for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.core.errors import ConfigError
from gristmill.figures.plan import PlanFigures, plan_figures
from gristmill.order.forecast import Forecast, SourceForecast
from gristmill.order.plan import Plan
from gristmill.simulate.options import SimulateOptions
from gristmill.simulate.simulation import Simulation

_POINTS = 48


@dataclass(frozen=True)
class SourceCourse:
    """A source at each point of the run: its exact share of the tokens since the point before, and epochs so far."""

    name: str
    shares: list[float]
    epochs: list[float]
    end: SourceForecast


@dataclass(frozen=True)
class PlanPicture:
    """What the report of a plan shows; `simulation` is of one node that keeps nothing, None where it cannot be made."""

    name: str
    plan: PlanFigures
    points: list[int]
    sources: list[SourceCourse]
    simulation: Simulation | None


def plan_picture(plan: Plan, name: str) -> PlanPicture:
    """Forecast a plan at up to 48 points, among them each step at which a phase begins."""
    figures = plan_figures(plan)
    points = run_points(figures.forecast.step, [phase.from_step for phase in figures.phases])
    forecasts = [plan.forecast(point) for point in points]
    courses = [_course(forecasts, number) for number in range(len(plan.sources))]
    return PlanPicture(name, figures, points, courses, _simulated(plan, figures.forecast.step))


def run_points(end: int, phases: Sequence[int]) -> list[int]:
    """Steps that lie evenly over a run, those at which phases end, and its last."""
    evenly = {max(1, round(end * number / _POINTS)) for number in range(1, _POINTS + 1)}
    return sorted(evenly | {step for step in phases if 0 < step < end} | {end})


def _course(forecasts: Sequence[Forecast], number: int) -> SourceCourse:
    own = [forecast.sources[number] for forecast in forecasts]
    tokens = [0, *(source.tokens for source in own)]
    totals = [0, *(sum(source.tokens for source in forecast.sources) for forecast in forecasts)]
    shares = [(tokens[at + 1] - tokens[at]) / max(totals[at + 1] - totals[at], 1) for at in range(len(own))]
    return SourceCourse(own[-1].name, shares, [source.epochs for source in own], own[-1])


def _simulated(plan: Plan, steps: int) -> Simulation | None:
    try:
        return plan.simulate(SimulateOptions(steps=steps))
    except ConfigError:  # a cut, or files of a kind, that a bucket does not serve
        return None
