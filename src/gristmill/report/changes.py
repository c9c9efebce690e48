"""The report of two stores, or of two plans: what leads from the one to the other."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.figures.changes import KINDS, ChangeExample, SourceChange, StoreChanges
from gristmill.figures.funnel import FunnelFigures
from gristmill.figures.plan_changes import PlanChanges, SourceGain
from gristmill.report.charts import Point, bars
from gristmill.report.differences import side_by_side
from gristmill.report.markup import Html, joined, tag
from gristmill.report.page import (
    Number,
    Section,
    details,
    figure,
    grid,
    notes,
    page,
    paragraph,
    sections,
    snippet,
    table,
    tiles,
)

_BARS = 20


def store_changes_page(changes: StoreChanges) -> Html:
    """The whole page of two stores."""
    totals = {kind: sum(getattr(source, kind) for source in changes.sources) for kind in KINDS}
    top = tiles({"documents the same": changes.same, **totals})
    alike = notes(["Both stores hold the same documents."], "good") if not any(totals.values()) else ""
    parts = [_by_source(changes), _by_rule(changes), _steps(changes), _examples(changes)]
    shown = joined([top, alike, sections(part for part in parts if part is not None)])
    about = joined(["against ", changes.before.path])
    return page(f"What changed in {changes.after.path}", shown, subtitle=about)


def _by_source(changes: StoreChanges) -> Section:
    charts = [_chart_of(changes.sources[:_BARS], kind) for kind in KINDS]
    rows = [(source.source, source.before, source.after, source.added, source.removed, source.changed,
             source.tokens_before, signed(source.tokens_after - source.tokens_before))
            for source in changes.sources]  # fmt: skip
    columns = ("source", "documents before", "now", "added", "removed", "changed", "tokens before", "gained")
    return "sources", "By source", joined([grid(*charts), table(columns, rows)])


def _chart_of(sources: Sequence[SourceChange], kind: str) -> Html:
    counts = [(source.source, getattr(source, kind)) for source in sources]
    points = [Point(name, count, f"{name}: {count:,} {kind}") for name, count in counts]
    return figure(bars(f"Documents {kind}", [("", points)]), f"Documents {kind}")


def signed(number: float) -> Number:
    """`+1,200`, `−35`"""
    shown = f"{abs(number):,}" if isinstance(number, int) else f"{abs(number):,.2f}"
    return Number(f"{'−' if number < 0 else '+' if number else ''}{shown}")


def _by_rule(changes: StoreChanges) -> Section | None:
    if not changes.rules:
        return None
    rows = [
        (rule.rule or tag("i", "no rule: inputs or the mix differ"), rule.added, rule.removed) for rule in changes.rules
    ]
    columns = ("rule", "added: it dropped them before", "removed: it drops them now")
    return "rules", "By rule", table(columns, rows)


def _steps(changes: StoreChanges) -> Section | None:
    before, after = _documents(changes.before.steps), _documents(changes.after.steps)
    names = dict.fromkeys([*after, *before])
    rows = [(name, before.get(name, Number("–")), after.get(name, Number("–"))) for name in names]
    return ("steps", "What each step left", table(("step", "documents before", "now"), rows)) if rows else None


def _documents(funnel: FunnelFigures) -> dict[str, int]:
    return {step.name: step.documents for step in funnel.steps}


def _examples(changes: StoreChanges) -> Section | None:
    if not changes.examples:
        return None
    return "examples", "Examples", joined(map(_example, changes.examples))


def _example(example: ChangeExample) -> Html:
    why = f" by {example.rule}" if example.rule else ""
    past = {
        "added": f", dropped before{why}" if why else "",
        "removed": f", dropped now{why}" if why else "",
        "changed": "",
    }
    summary = joined(
        [tag("b", example.kind), " ", tag("span", example.id, class_="id"), f" of {example.source}", past[example.kind]]
    )
    if example.kind == "changed" and example.before is not None and example.after is not None:
        return details(summary, side_by_side("before", example.before, "now", example.after))
    text = example.after if example.after is not None else example.before
    return details(summary, snippet(text) if text else paragraph("Its text is not on disk.", class_="faint"))


def plan_changes_page(changes: PlanChanges) -> Html:
    """The whole page of two plans."""
    parts = [_gains(changes), _options(changes)]
    about = joined(["against ", changes.before_name])
    shown = joined([_differ(changes), sections(part for part in parts if part is not None)])
    return page(f"What changed in {changes.after_name}", shown, subtitle=about)


def _differ(changes: PlanChanges) -> Html:
    if changes.differ_from is None:
        return notes(["Both plans serve the same batches."], "good")
    if not changes.differ_from:
        return notes(["The plans differ from the first step on."])
    return notes([f"The plans differ from step {changes.differ_from:,} on: before it their batches are the same, and a "
                  "checkpoint of one resumes with the other."])  # fmt: skip


def _gains(changes: PlanChanges) -> Section:
    shown = changes.sources[:_BARS]
    series = [
        ("before", [_tokens(gain.name, gain.tokens_before, "before") for gain in shown]),
        ("now", [_tokens(gain.name, gain.tokens_after, "now") for gain in shown]),
    ]
    columns = ("source", "tokens before", "now", "gained", "epochs before", "now")
    ends = f"After {changes.before.forecast.step:,} steps before, and {changes.after.forecast.step:,} now."
    chart = figure(bars("Tokens by source", series), "Tokens by source")
    parts = [grid(chart), paragraph(ends, class_="faint"), table(columns, map(_gain_row, changes.sources))]
    return "sources", "What each source gains", joined(parts)


def _tokens(name: str, tokens: int, when: str) -> Point:
    return Point(name, tokens, f"{name}: {tokens:,} tokens {when}")


def _gain_row(gain: SourceGain) -> tuple[object, ...]:
    epochs = (Number(f"{passes:.2f}") for passes in (gain.epochs_before, gain.epochs_after))
    gained = signed(gain.tokens_after - gain.tokens_before)
    return gain.name, gain.tokens_before, gain.tokens_after, gained, *epochs


def _options(changes: PlanChanges) -> Section | None:
    if not changes.options:
        return None
    rows = [(name, *(tag("code", str(value)[:500]) for value in values)) for name, values in changes.options.items()]
    return "options", "Options that differ", table(("option", "before", "now"), rows)
