"""The funnel of a store, summed over its sources: what each step left of the documents, and why others went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gristmill.store.manifest import SPLITS, FunnelRow

UNREADABLE, MIX = "unreadable", "mix"
NO_RULES = (UNREADABLE, MIX, *SPLITS)
# So much of so much, in documents or in tokens.
Part = tuple[int, int]


@dataclass(frozen=True)
class FunnelStep:
    """What is left after a step, of what, dropped documents by reason, and how often a mix takes each source.

    `kept` is in documents, of a split in tokens of all splits; None where nothing could go.
    """

    name: str
    documents: int
    bytes: int
    tokens: int
    kept: Part | None
    reasons: Mapping[str, int]
    times: Mapping[str, float]


@dataclass(frozen=True)
class SourcePart:
    """What came of a source."""

    name: str
    read: int
    left: int
    tokens: int


@dataclass(frozen=True)
class FunnelFigures:
    """Documents that all rules kept, of those read; the steps, those that dropped nothing apart; and the sources."""

    kept: Part | None
    steps: Sequence[FunnelStep]
    idle: Sequence[str]
    sources: Sequence[SourcePart]


def sum_up(rows: Sequence[FunnelRow]) -> FunnelFigures:
    """The figures of a manifest's funnel."""
    names = list(dict.fromkeys(row["stage"] for row in rows))
    steps = [_step(name, [row for row in rows if row["stage"] == name], rows) for name in names]
    passed = [step for step in steps if step.name not in NO_RULES]
    idle = [step.name for step in passed[1:] if not step.reasons]
    sources = dict.fromkeys(row["source"] for row in rows)
    return FunnelFigures(
        (passed[-1].documents, passed[0].documents) if passed else None,
        [step for step in steps if step.name not in idle],
        idle,
        [_source(name, [row for row in rows if row["source"] == name]) for name in sources],
    )


def _step(name: str, own: Sequence[FunnelRow], rows: Sequence[FunnelRow]) -> FunnelStep:
    reasons: Counter[str] = Counter()
    for row in own:
        reasons.update(row.get("reasons", {}))
    documents, tokens = sum(row["documents"] for row in own), sum(row.get("tokens", 0) for row in own)
    kept = (tokens, _tokens(rows)) if name in SPLITS else (documents, documents + reasons.total()) if reasons else None
    times = {row["source"]: row["times"] for row in own if "times" in row}
    return FunnelStep(name, documents, sum(row.get("bytes", 0) for row in own), tokens, kept, reasons, times)


def _source(name: str, own: Sequence[FunnelRow]) -> SourcePart:
    passed = [row["documents"] for row in own if row["stage"] not in NO_RULES] or [0]
    return SourcePart(name, passed[0], passed[-1], _tokens(own))


def _tokens(rows: Sequence[FunnelRow]) -> int:
    """Those in the splits."""
    return sum(row["tokens"] for row in rows if row["stage"] in SPLITS)
