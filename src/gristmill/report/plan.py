"""The report of a plan: its phases, its mix and epochs over the run, and what a node fetches."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.figures.plan import PhaseFigures
from gristmill.figures.plan_picture import PlanPicture, SourceCourse
from gristmill.report.charts import LinePoint, lines
from gristmill.report.markup import Html, joined, plain, tag
from gristmill.report.page import (
    Number,
    Section,
    facts,
    figure,
    grid,
    page,
    paragraph,
    percent,
    sections,
    size,
    table,
    tiles,
)

_SERIES = 12


def plan_page(picture: PlanPicture) -> Html:
    """The whole page."""
    plan = picture.plan
    end = "endless" if plan.steps is None else f"{plan.steps:,}"
    top = tiles(
        {"steps": end, "tokens": plan.forecast.tokens, "sources": len(picture.sources), "phases": len(plan.phases)}
    )
    seen = "" if plan.steps else paragraph(f"The plan is endless: shown are its first {plan.forecast.step:,} steps.")
    shown = sections([phases_section(picture), mix_section(picture), shuffle_section(picture), bytes_section(picture),
                      options_section(picture)])  # fmt: skip
    return page(f"Report of {picture.name}", joined([top, seen, shown]), subtitle=f"plan {plan.fingerprint}")


def phases_section(picture: PlanPicture) -> Section:
    """Phases on a line, and in figures."""
    phases, end = picture.plan.phases, picture.plan.forecast.step
    rows = [(phase.from_step, _end(phase), phase.seq_len, phase.batch_size, _weights(phase)) for phase in phases]
    shown = [timeline(phases, end), table(("from step", "to step", "seq_len", "batch_size", "weights"), rows)]
    return "phases", "Phases", joined(shown)


def _end(phase: PhaseFigures) -> object:
    return phase.to_step if phase.to_step is not None else Number("no end")


def _weights(phase: PhaseFigures) -> str:
    return ", ".join(f"{name} {weight}" for name, weight in phase.weights.items())


def timeline(phases: Sequence[PhaseFigures], end: int) -> Html:
    """Phases side by side, each as long as its steps."""
    parts = "".join(_part(number, phase, end) for number, phase in enumerate(phases))
    head = '<svg class="bar phases" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="Phases">'
    return figure(Html(f"{head}{parts}</svg>"), f"Steps 0 to {end:,}")


def _part(number: int, phase: PhaseFigures, end: int) -> str:
    begin, stop = phase.from_step, min(phase.to_step or end, end)
    left, width = 100 * begin / end, 100 * max(stop - begin, 0) / end
    shape = f"seq_len {phase.seq_len:,}, batch_size {phase.batch_size:,}"
    said = plain(f"steps {begin:,} to {stop:,}: {shape}, {_weights(phase)}")
    return (
        f'<rect class="color-{number % 13}" x="{left:.3f}" width="{width:.3f}" height="10"><title>{said}</title></rect>'
    )


def mix_section(picture: PlanPicture) -> Section:
    """The exact mix between points of the run, epochs of each source, and when each runs out."""
    shown = sorted(picture.sources, key=lambda source: -source.end.tokens)[:_SERIES]
    shares = [(source.name, _shares(picture.points, source)) for source in shown]
    epochs = [(source.name, _epochs(picture.points, source)) for source in shown]
    charts = grid(
        figure(lines("Share of the tokens", shares, "{:.0%}".format, stacked=True), "Share of the tokens, by steps"),
        figure(lines("Epochs", epochs), "Epochs of each source, by steps"),
    )
    columns = ("source", "samples", "share", "tokens", "epochs", "first read through at step", "then at steps")
    return "mix", "Mix and epochs", joined([charts, table(columns, map(_source_row, picture.sources))])


def _shares(points: Sequence[int], source: SourceCourse) -> list[LinePoint]:
    return [(step, share, f"{source.name}: {share:.2%} of the tokens up to step {step:,}")
            for step, share in zip(points, source.shares, strict=True)]  # fmt: skip


def _epochs(points: Sequence[int], source: SourceCourse) -> list[LinePoint]:
    return [(0, 0.0, f"{source.name} begins"),
            *((step, epoch, f"{source.name}: {epoch:.2f} epochs at step {step:,}")
              for step, epoch in zip(points, source.epochs, strict=True))]  # fmt: skip


def _source_row(source: SourceCourse) -> tuple[object, ...]:
    end, starts = source.end, source.end.next_epoch_steps
    first = starts[0] if starts else Number("not in this run")
    return (end.name, end.samples, percent(end.share), end.tokens, Number(f"{end.epochs:.2f}"), first,
            ", ".join(f"{step:,}" for step in starts[1:]))  # fmt: skip


def shuffle_section(picture: PlanPicture) -> Section:
    """How far neighbours come apart, and what no epoch serves."""
    rows = [(source.name, source.end.neighbours_apart, source.end.unread_tokens, source.end.unserved_tokens)
            for source in picture.sources]  # fmt: skip
    about = paragraph("How many of a source's samples are served between two that lie side by side, by the median.")
    columns = (
        "source",
        "samples between neighbours",
        "tokens that phases leave unread",
        "tokens that fill no sequence",
    )
    return "shuffle", "Shuffle, and what is left over", joined([about, table(columns, rows)])


def bytes_section(picture: PlanPicture) -> Section:
    """What a node fetches of stores in a bucket."""
    found = picture.simulation
    if found is None:
        return "bytes", "Bytes a node", paragraph("What a node fetches cannot be told for this plan.")
    fetched = 0
    course = [(0.0, 0.0, "nothing is fetched yet")]
    for part in found.stretches:
        fetched += part.bytes
        course.append((part.to_step, fetched, f"{fetched:,} bytes up to step {part.to_step:,}"))
    known = facts({"fetched": size(found.bytes), "of which in batches": size(found.served_bytes),
                   "requests": found.requests,
                   "cache with which it waits least": size(found.smallest_cache_bytes)})  # fmt: skip
    about = paragraph(
        "One node that reads all of each batch from a bucket and keeps nothing; `gristmill simulate` has the rest."
    )
    chart = figure(lines("Bytes fetched", [("fetched", course)]), "Bytes fetched, by steps")
    return "bytes", "Bytes a node", joined([about, grid(chart, known)])


def options_section(picture: PlanPicture) -> Section:
    """What else the plan says."""
    plan = picture.plan
    shown = {
        name: f"{len(value):,} entries" if isinstance(value, list) else tag("code", str(value))
        for name, value in plan.options.items()
    }
    return "options", "Options", facts({"seed": str(plan.seed), **shown})
