"""Documents taken out of a run, as token ranges of their sources: no other sample moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gristmill.core.arrays import Ints, Mask
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.order.options import Exclude
from gristmill.order.source import Source


@dataclass(frozen=True, eq=False)
class Exclusions:
    """One row a matched document, sorted by (source, start): its tokens [start, end) and since when they are out."""

    items: tuple[Exclude, ...]
    source: Ints
    start: Ints
    end: Ints
    from_step: Ints
    replace: Mask

    def __bool__(self) -> bool:
        return bool(self.items)

    def before(self, step: int) -> list[list[str | int]]:
        """What is out before `step`, for the prefix; rewritten history is left out."""
        kept = [item for item in self.items if item.from_step < step and not item.rewrite_history]
        return sorted([item.doc, item.source or "", item.from_step, item.mode] for item in kept)

    def covering(self, source: int, start: int, step: int) -> bool:
        """Whether the token at `start` of a source is out at `step`."""
        hit = (self.source == source) & (self.start <= start) & (start < self.end) & (self.from_step <= step)
        return bool(hit.any())


def resolve_exclusions(items: Sequence[Exclude], sources: tuple[Source, ...]) -> Exclusions:
    """Find the documents in their stores; one that is nowhere is an error, not an exclusion without effect."""
    names = [source.name for source in sources]
    for item in items:
        if item.source is not None and item.source not in names:
            raise ConfigError(f"The exclusion of {item.doc!r} names an unknown source {item.source!r}"
                              f"{did_you_mean(item.source, names)}.")  # fmt: skip
    rows: list[tuple[int, int, int, int, bool]] = []
    found: set[str] = set()
    for k, source in enumerate(sources):
        wanted = [item for item in items if item.source in (None, source.name)]
        places = source.store.locate([item.doc for item in wanted]) if wanted else {}
        for item in wanted:
            for document in places.get(item.doc, []):
                found.add(item.doc)
                rows.append((k, *source.store.document_span(document), item.from_step, item.mode == "replace"))
    for item in items:
        if item.doc not in found:
            raise ConfigError(f"The excluded document {item.doc!r} is in none of the sources {', '.join(names)}.")
    table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 5)
    columns = [np.ascontiguousarray(column) for column in table.T]
    return Exclusions(tuple(items), columns[0], columns[1], columns[2], columns[3], columns[4].astype(np.bool_))
