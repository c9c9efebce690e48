"""The funnel in 80 columns: what each step left of the documents, and the commonest reasons why others went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gristmill.core.sizes import mega
from gristmill.figures.funnel import UNREADABLE, FunnelFigures, FunnelStep
from gristmill.show.terminal import JOIN, Row, line, paragraph, percent, table
from gristmill.store.manifest import FunnelRow

_REASONS_SHOWN = 3


def show_funnel(funnel: FunnelFigures) -> None:
    """What came in, what each step that dropped something left, the splits; and what came of each source."""
    if not funnel.steps:
        return
    line("")
    if funnel.kept:
        left, read = funnel.kept
        line(f"{left:,} of {read:,} documents were kept ({percent(left, read)}).")
    counted = 5 if any(step.tokens for step in funnel.steps) else 4  # a stream counts no tokens by step
    columns = ("step", "documents", "kept", "text MB", "tokens")[:counted]
    table("", columns, [Row(row.cells[:counted], row.below) for row in map(_row, funnel.steps)])
    if funnel.idle:
        paragraph(f"Nothing was dropped by {', '.join(funnel.idle)}.")
    if len(funnel.sources) > 1:
        line("")
        table("", ("source", "read", "left", "kept", "tokens"), [
            (part.name, part.read, part.left, percent(part.left, part.read), part.tokens) for part in funnel.sources
        ])  # fmt: skip


def show_split(funnel: Sequence[FunnelRow]) -> None:
    """What a split holds of each source."""
    line("")
    table("", ("source", "documents", "text MB", "tokens"), [
        (row["source"], row["documents"], mega(row.get("bytes", 0)), row["tokens"]) for row in funnel
    ])  # fmt: skip


def _row(step: FunnelStep) -> Row:
    """A step with its reasons, or with what a mix took of each source, below it."""
    if step.name == UNREADABLE:
        return Row((step.name, step.documents, "", "", ""))
    mixed = ", ".join(f"{source} {times:,.2f} times" for source, times in step.times.items())
    kept = percent(*step.kept) if step.kept else ""
    return Row((step.name, step.documents, kept, mega(step.bytes), step.tokens), mixed or commonest(step.reasons))


def commonest(reasons: Mapping[str, int]) -> str:
    """`too_few_chars 938, too_many_chars 2, and 5 for 2 other reasons`"""
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{reason}{JOIN}{count:,}" for reason, count in ranked[:_REASONS_SHOWN]]
    rest = [count for _, count in ranked[_REASONS_SHOWN:]]
    if rest:
        others = "another reason" if len(rest) == 1 else f"{len(rest):,} other reasons"
        shown.append(f"and {sum(rest):,} for {others}")
    return ", ".join(shown)
