"""The funnel in 80 columns: what each step left of the documents, and the commonest reasons why others went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.core.sizes import mega
from gristmill.show.terminal import JOIN, Row, line, paragraph, percent, table
from gristmill.store.manifest import SPLITS

Funnel = Sequence[Mapping[str, Any]]

_REASONS_SHOWN = 3
_UNREADABLE, _MIX = "unreadable", "mix"
_NO_RULES = (_UNREADABLE, _MIX, *SPLITS)


@dataclass
class Step:
    """A step over all sources: what is left of documents, bytes and tokens, and dropped documents by reason."""

    name: str
    left: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    times: dict[str, float] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """The figures of one source."""
        self.left.update({unit: row[unit] for unit in ("documents", "bytes", "tokens") if unit in row})
        self.reasons.update(row.get("reasons", {}))
        if "times" in row:
            self.times[row["source"]] = row["times"]

    def cells(self, kept: str) -> list[Any]:
        """Name, documents, percent kept, megabytes, tokens."""
        return [self.name, self.left["documents"], kept, mega(self.left["bytes"]), self.left["tokens"]]


def show_funnel(funnel: Funnel) -> None:
    """What came in, what each step that dropped something left, the splits; and what came of each source."""
    steps = _steps(funnel)
    if not steps:
        return
    line("")
    _show_total(steps)
    table("", ("step", "documents", "kept", "text MB", "tokens"), list(_rows(steps)))
    idle = [step.name for step in steps if not step.reasons and step.name not in (_first(steps), *_NO_RULES)]
    if idle:
        paragraph(f"Nothing was dropped by {', '.join(idle)}.")
    _show_sources(funnel)


def show_split(funnel: Funnel) -> None:
    """What a split holds of each source."""
    line("")
    table("", ("source", "documents", "text MB", "tokens"), [
        (row["source"], row["documents"], mega(row["bytes"]), row["tokens"]) for row in funnel
    ])  # fmt: skip


def _steps(funnel: Funnel) -> list[Step]:
    """The steps in their order, summed over the sources."""
    found: dict[str, Step] = {}
    for row in funnel:
        found.setdefault(row["stage"], Step(row["stage"])).add(row)
    return list(found.values())


def _first(steps: Sequence[Step]) -> str:
    """The step that saw all documents that could be read."""
    return next((step.name for step in steps if step.name not in _NO_RULES), "")


def _show_total(steps: Sequence[Step]) -> None:
    passed = [step.left["documents"] for step in steps if step.name not in _NO_RULES]
    if passed:
        line(f"{passed[-1]:,} of {passed[0]:,} documents were kept ({percent(passed[-1], passed[0])}).")


def _rows(steps: Sequence[Step]) -> Iterator[Row]:
    """First what was read, then the steps that dropped something, then the splits with their shares of the tokens."""
    tokens = sum(step.left["tokens"] for step in steps if step.name in SPLITS)
    for step in steps:
        if step.name == _UNREADABLE:
            yield Row([step.name, step.left["documents"], "", "", ""])
        elif step.name == _MIX:
            yield Row(step.cells(""), ", ".join(f"{source} {times:,.2f} times" for source, times in step.times.items()))
        elif step.name in SPLITS:
            yield Row(step.cells(percent(step.left["tokens"], tokens)))
        elif step.reasons:
            seen = step.left["documents"] + step.reasons.total()
            yield Row(step.cells(percent(step.left["documents"], seen)), commonest(step.reasons))
        elif step.name == _first(steps):
            yield Row(step.cells(""))


def commonest(reasons: Mapping[str, int]) -> str:
    """`too_few_chars 938, too_many_chars 2, and 5 for 2 other reasons`"""
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{reason}{JOIN}{count:,}" for reason, count in ranked[:_REASONS_SHOWN]]
    rest = [count for _, count in ranked[_REASONS_SHOWN:]]
    if rest:
        others = "another reason" if len(rest) == 1 else f"{len(rest):,} other reasons"
        shown.append(f"and {sum(rest):,} for {others}")
    return ", ".join(shown)


def _show_sources(funnel: Funnel) -> None:
    """What came of each source, where there are several."""
    names = list(dict.fromkeys(row["source"] for row in funnel))
    if len(names) > 1:
        line("")
        rows = [_source_cells(name, [row for row in funnel if row["source"] == name]) for name in names]
        table("", ("source", "read", "left", "kept", "tokens"), rows)


def _source_cells(name: str, funnel: Funnel) -> list[Any]:
    passed = [row["documents"] for row in funnel if row["stage"] not in _NO_RULES] or [0]
    tokens = sum(row["tokens"] for row in funnel if row["stage"] in SPLITS)
    return [name, passed[0], passed[-1], percent(passed[-1], passed[0]), tokens]
