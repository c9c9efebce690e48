"""The order of documents in a store: as they came, shuffled by seed, or sampled and repeated to a mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypedDict

from gristmill.core.errors import SourceError
from gristmill.core.hashing import derive_key
from gristmill.recipe import MixOptions
from gristmill.stages.relation import UNITS_A_SOURCE
from gristmill.stages.tokens import SHUFFLE_KEYS


@dataclass(frozen=True)
class Share:
    """What a mix takes of a source, in documents or tokens: `wanted`, over and over, of what is `available`."""

    source: str
    wanted: int
    available: int

    @property
    def times(self) -> float:
        """How often the source is in the store: 2.5 is twice all of it and half of it once more."""
        return self.wanted / self.available if self.available else 0.0


def shares(mix: MixOptions, available: dict[str, int]) -> list[Share]:
    """The parts of a mix in documents or tokens, their sum exactly `target`; an empty source is an error."""
    weights = mix.exact_weights
    total = sum(weights.values())
    ends, at = [0], Fraction(0)
    for weight in weights.values():
        at += weight / total
        ends.append(int(at * mix.target))
    found = [Share(name, stop - first, available.get(name, 0))
             for name, first, stop in zip(weights, ends[:-1], ends[1:], strict=True)]  # fmt: skip
    for share in found:
        if share.wanted and not share.available:
            raise SourceError(f"The mix wants {share.wanted:,} {mix.unit} of {share.source!r}, which has none left.")
    return found


# SQL for all `documents` in the order of their shuffle key.
SHUFFLED = "SELECT * FROM documents ORDER BY shuffle, doc"


def mixed(parts: Sequence[tuple[int, Share]], unit: str, shuffle: bool, seed: int, columns: Sequence[str]) -> str:
    """SQL for the `documents` of a mix: each source by its shuffle key, over and over, until its share is full.

    `parts` are shares by the ordinal of their source. Copies get their number after the id (`id#2` is the second). In
    tokens, the document that reaches the share is the last one taken. The result is in the order of input, copy after
    copy, or shuffled.
    """
    places = "OVER (PARTITION BY source ORDER BY shuffle, doc ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    so_far = f"CAST(SUM(length) {places} AS BIGINT) - length" if unit == "tokens" else f"ROW_NUMBER() {places} - 1"
    order = f"(shuffle + turn) % {SHUFFLE_KEYS}, doc, copy" if shuffle else "copy, doc"
    carried = ", ".join(f"ranked.{name}" for name in columns if name != "id")
    return f"""
        SELECT {carried}, CASE WHEN copy = 0 THEN id ELSE id || '#' || CAST(copy + 1 AS STRING) END AS id
        FROM (SELECT *, unit - unit % {UNITS_A_SOURCE} AS first_unit, {so_far} AS so_far FROM documents) AS ranked
        JOIN (VALUES {_passes(parts, seed)}) AS passes(first_unit, copy, wanted, turn)
            ON ranked.first_unit = passes.first_unit AND ranked.so_far < passes.wanted
        ORDER BY {order}"""


def _passes(parts: Sequence[tuple[int, Share]], seed: int) -> str:
    """A row for each time that a source is gone through: how much of it is wanted, and where its shuffle begins."""
    rows = ((ordinal * UNITS_A_SOURCE, copy, min(part.available, part.wanted - copy * part.available),
             derive_key(seed, "copy", part.source, copy) % SHUFFLE_KEYS)
            for ordinal, part in parts
            for copy in range(-(-part.wanted // part.available) if part.available else 0))  # fmt: skip
    return ", ".join(map(str, rows))


class SplitCounts(TypedDict):
    """What a split has of a source."""

    source: str
    split: str
    documents: int
    bytes: int
    tokens: int


UNITS: tuple[Literal["documents", "bytes", "tokens"], ...] = ("documents", "bytes", "tokens")
# SQL for these counts of all sources and splits of a `layout`.
COUNTS = """
    SELECT source, CASE WHEN val THEN 'val' ELSE 'train' END AS split, COUNT(*) AS documents,
        CAST(SUM(bytes) AS BIGINT) AS bytes, CAST(SUM(length) AS BIGINT) AS tokens
    FROM layout GROUP BY source, val ORDER BY source, val
"""
