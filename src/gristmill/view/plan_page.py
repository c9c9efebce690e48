"""A plan: its phases and sources; of a run its losses, and the steps where they stand out."""

from __future__ import annotations

import numpy as np

from gristmill.figures.plan import plan_figures
from gristmill.figures.served import Run, Served
from gristmill.order.plan import Plan
from gristmill.report.markup import Html, joined, plain
from gristmill.report.page import Number, facts, figure, paragraph, percent, section, table
from gristmill.view.parts import link
from gristmill.view.subject import Subject

_POINTS, _HIGHEST = 400, 10


def plan_sections(subject: Subject, plan: Plan) -> Html:
    """What a plan is, and what it serves in all."""
    figures = plan_figures(plan)
    phases = [
        [link(f"{phase.from_step:,}", "step", n=phase.from_step), "" if phase.to_step is None else phase.to_step,
         phase.seq_len, phase.batch_size, ", ".join(f"{name} {weight}" for name, weight in phase.weights.items())]
        for phase in figures.phases
    ]  # fmt: skip
    sources = [
        [link(each.name, "docs", store=k), each.samples, percent(each.share), each.tokens,
         Number(f"{each.epochs:,.2f}")]
        for k, each in enumerate(figures.forecast.sources)
    ]  # fmt: skip
    about = facts({"fingerprint": figures.fingerprint, "cut": str(plan.options.cut), "seed": str(plan.seed)})
    return joined([
        section("Losses", _losses(subject.run)) if subject.run else "",
        section("Plan", about, table(["from step", "to step", "seq_len", "batch_size", "weights"], phases),
                table(["source", "samples", "share", "tokens", "epochs"], sources,
                      f"After {figures.forecast.step:,} steps and {figures.forecast.tokens:,} tokens")),
    ])  # fmt: skip


def _losses(run: Run) -> Html:
    """The losses of a run as a line, and where they are highest."""
    served = run.served()
    steps, losses = served.step[served.told], served.loss[served.told]
    known = np.isfinite(losses)
    said = paragraph(f"{len(served):,} steps are recorded, {_tokens(served)}; {len(steps):,} of them with a loss.")
    if not known.any():
        return said
    highest = np.argsort(np.where(known, losses, np.inf), kind="stable")[::-1][:_HIGHEST]
    rows = [[link(f"{steps[i]:,}", "step", n=int(steps[i])), Number(f"{losses[i]:.4f}")] for i in highest.tolist()]
    last = f"Step {steps[0]:,} to {steps[-1]:,}, loss {losses[known].min():.3f} to {losses[known].max():.3f}."
    return joined([said, figure(_line(losses[known]), last), table(["step", "loss"], rows, "The highest losses")])


def _tokens(served: Served) -> str:
    return f"{int(served.tokens.sum()):,} tokens"


def _line(losses: np.ndarray) -> Html:
    """A line of at most 400 points: of the losses that share one, the highest, so that no spike is lost."""
    edges = np.unique(np.linspace(0, len(losses), min(_POINTS, len(losses)) + 1).astype(np.int64))[:-1]
    values = np.maximum.reduceat(losses, edges)
    low, high = float(values.min()), float(values.max())
    heights = 95 - 90 * (values - low) / (high - low or 1.0)
    places = np.linspace(0, 400, len(values)) if len(values) > 1 else np.array([200.0])
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(places.tolist(), heights.tolist(), strict=True))
    label = plain(f"Loss from {low:.3f} to {high:.3f}")
    return Html(
        f'<svg class="losses" viewBox="0 0 400 100" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<polyline points="{points}"/></svg>'
    )
