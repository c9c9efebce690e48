"""The funnel: what came in and out of each step by source, added up from the figures of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gristmill.sources.base import SHOWN_FILES
from gristmill.stages.account import DROPPED
from gristmill.stages.layout import UNITS, SplitCounts
from gristmill.stages.work import Facts
from gristmill.store.manifest import SPLITS, FunnelRow

FUNNEL = "funnel.json"
# A rule that drops more than this share of what it sees is worth a look before the data is used.
_LARGE_SHARE = 0.5
_NOTHING: tuple[int, list[str]] = (0, [])
_Key = tuple[str, str, str]


@dataclass
class _Left:
    """What a step left of a source, and why the rest went."""

    documents: int = 0
    bytes: int = 0
    tokens_dropped: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass
class _Some:
    """How many there are, and the first of them: there may be as many as input files."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, count: int, first: Sequence[str]) -> None:
        self.count += count
        self.first = [*self.first, *first][:SHOWN_FILES]


class Tally:
    """Adds up the figures of jobs: steps in the order in which they ran, sources in the order of the recipe."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = list(sources)
        self._steps: dict[str, dict[str, _Left]] = {}
        # Documents, bytes and tokens by (split, source, unit): after all rules, and in the end if that differs.
        self._splits, self._ends = Counter[_Key](), Counter[_Key]()
        self._unreadable: Counter[str] = Counter()
        self._mix: list[FunnelRow] = []
        self._damaged, self._empty = _Some(), _Some()
        self.ignored = 0
        self._carried = Counter[tuple[str, str]]()

    def add(self, source: str, facts: Facts) -> None:
        """The figures of one job."""
        for step, (documents, size) in facts["after"].items():
            found = self._left(step, source)
            found.documents += documents
            found.bytes += size
        for step, reasons in facts["reasons"].items():
            self._left(step, source).reasons.update(reasons)
        for step, tokens in facts.get("tokens_dropped", {}).items():
            self._left(step, source).tokens_dropped += tokens
        for split, counts in facts.get("splits", {}).items():
            self._splits.update({(split, source, unit): count for unit, count in counts.items()})
        self._unreadable[source] += facts.get("unreadable", 0)
        self.ignored += facts.get("ignored", 0)
        self._damaged.add(*facts.get("damaged", _NOTHING))
        self._empty.add(*facts.get("empty", _NOTHING))
        for name, documents in facts.get("carried", {}).items():
            self._carried[source, name] += documents

    def _left(self, step: str, source: str) -> _Left:
        return self._steps.setdefault(step, {}).setdefault(source, _Left())

    @property
    def unreadable(self) -> int:
        """Documents, or whole files, that could not be read."""
        return self._unreadable.total()

    @property
    def empty(self) -> int:
        """Files that hold nothing."""
        return self._empty.count

    @property
    def dropped(self) -> int:
        """Documents that rules dropped, those without a text included."""
        return sum(step.reasons.total() for steps in self._steps.values() for step in steps.values())

    def notes(self, files: int) -> list[str]:
        """What was left out on the way in: each file that is damaged or empty, by name."""
        found = []
        if self.unreadable:
            more = self._damaged.count - SHOWN_FILES
            shown = "; ".join([*self._damaged.first, *([f"and {more:,} more files"] if more > 0 else [])])
            said = f"{self.unreadable:,} documents could not be read and were skipped ({DROPPED} lists them)"
            found.append(f"{said}: {shown}")
        if self.empty:
            names = ", ".join(self._empty.first) + (", ..." if self.empty > SHOWN_FILES else "")
            found.append(f"Of the {files:,} input files {self.empty:,} hold nothing (0 bytes): {names}.")
        if self.ignored:
            found.append(f"{self.ignored:,} members of tar files hold no text and were left out.")
        found += [f"No document of the source {source!r} has the field {name!r}: it is carried as empty."
                  for (source, name), documents in self._carried.items() if not documents]  # fmt: skip
        return found

    def end(self, mix: list[FunnelRow], ends: Sequence[SplitCounts]) -> None:
        """What a mix took of each source, if there is one, and what of it is in each split."""
        self._mix = mix
        self._ends = Counter({(row["split"], row["source"], unit): row[unit] for row in ends for unit in UNITS})

    def tokens(self, split: str) -> int:
        """Tokens of a split after all rules, before a mix."""
        return sum(self._splits[split, source, "tokens"] for source in self._sources)

    def left(self, source: str, unit: str) -> int:
        """Documents or tokens that a source has after all rules, in both splits."""
        return sum(self._splits[split, source, unit] for split in SPLITS)

    def rows(self) -> list[FunnelRow]:
        """One row a step and source: documents, bytes and tokens in and out, and documents dropped by reason.

        A step's tokens are those of the documents that it saw, as each stood at its end in the pipeline.
        """
        lost: list[FunnelRow] = [{"stage": "unreadable", "source": name, "documents": self._unreadable[name]}
                                 for name in self._sources if self._unreadable[name]]  # fmt: skip
        steps = {source: self._source_rows(source) for source in self._sources}
        passed = [steps[source][step] for step in self._steps for source in self._sources if step in steps[source]]
        found = self._ends or self._splits
        ends: list[FunnelRow] = [
            {"stage": split, "source": source, "documents": documents, "bytes": found[split, source, "bytes"],
             "tokens": found[split, source, "tokens"]}
            for split in SPLITS for source in self._sources if (documents := found[split, source, "documents"])
        ]  # fmt: skip
        return lost + passed + self._mix + ends

    def _source_rows(self, source: str) -> dict[str, FunnelRow]:
        """The rows of a source by step; tokens are added up from the end, where they are known."""
        tokens = self.left(source, "tokens")
        rows: dict[str, FunnelRow] = {}
        steps = [name for name in self._steps if source in self._steps[name]]
        for before, name in reversed(list(zip([steps[0], *steps], steps, strict=False)) if steps else []):
            step, previous = self._steps[name][source], self._steps[before][source]
            rows[name] = {"stage": name, "source": source, "documents_in": previous.documents,
                          "bytes_in": previous.bytes, "tokens_in": tokens + step.tokens_dropped,
                          "documents": step.documents, "bytes": step.bytes, "tokens": tokens,
                          "reasons": dict(sorted(step.reasons.items()))}  # fmt: skip
            tokens += step.tokens_dropped
        return rows

    def warnings(self, rules: Sequence[str]) -> list[str]:
        """Rules that dropped nothing, or more than half of what they saw, over all sources."""
        return [text for rule in rules if (text := self._warning(rule))]

    def _warning(self, rule: str) -> str | None:
        steps = list(self._steps.get(rule, {}).values())
        gone = sum(step.reasons.total() for step in steps)
        seen = gone + sum(step.documents for step in steps)
        if seen and not gone:
            return f"The rule {rule!r} never fired on {seen:,} documents."
        if seen and gone > _LARGE_SHARE * seen:
            return f"The rule {rule!r} dropped {gone:,} of {seen:,} documents ({gone / seen:.0%})."
        return None
