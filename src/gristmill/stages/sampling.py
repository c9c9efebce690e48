"""A sample of the input, and how much there is of it: some units of each source are read, the rest is inferred.

Sizes on disk say little about text: a packed file holds five times as much, JSON has its keys. So what is counted is
what the bytes that were really read gave, source by source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from gristmill.curate.documents import Documents
from gristmill.curate.ledger import start_documents
from gristmill.recipe import Recipe
from gristmill.sources.base import Format, Mishaps
from gristmill.sources.streams import streams_opened
from gristmill.sources.units import Unit, read_part

# Units that are looked into, spread evenly over a source: those of a source of less than 1 GiB all are.
_UNITS = 16
# Text that is read of a unit; a small one is read to its end.
_ENOUGH_BYTES = 16 << 20
# How far an inference from one unit, or from units that happen to be alike, may be off.
_UNSURE_ALONE, _UNSURE = 0.3, 0.05


@dataclass
class Look:
    """What was read of a unit: so many bytes of it on disk gave these documents."""

    disk_bytes: int
    documents: int = 0
    text_bytes: int = 0
    sample: list[Documents] = field(default_factory=list)


@dataclass(frozen=True)
class Amount:
    """A figure that is inferred, and how far it may be off to either side."""

    value: float
    margin: float = 0.0

    def times(self, factor: float, margin: float = 0.0) -> Amount:
        """Multiplied by a factor, which may itself be off by `margin` (a share of it)."""
        value = self.value * factor
        own = self.margin / self.value if self.value else 0.0
        return Amount(value, value * math.hypot(own, margin))

    def plus(self, other: Amount) -> Amount:
        return Amount(self.value + other.value, math.hypot(self.margin, other.margin))


@dataclass(frozen=True)
class SourceSample:
    """A source: what it holds, and documents that stand for it."""

    name: str
    documents: Amount
    text_bytes: Amount
    sample: list[Documents]


def sample_sources(recipe: Recipe, units: Sequence[Unit], count: int) -> list[SourceSample]:
    """Look into each source, and take about `count` documents in all, evenly out of what was read; always the same."""
    total = sum(unit.size for unit in units) or 1
    found = []
    for source in recipe.sources:
        own = [unit for unit in units if unit.source == source.name]
        share = -(-count * sum(unit.size for unit in own) // total)
        found.append(_sample_source(source.name, own, source.layout, share))
    return found


def _sample_source(name: str, units: Sequence[Unit], layout: Format, count: int) -> SourceSample:
    chosen = [units[i] for i in dict.fromkeys(len(units) * i // _UNITS for i in range(_UNITS))] if units else []
    looks = [_look(unit, layout, -(-count // len(chosen))) for unit in chosen]
    size = sum(unit.size for unit in units)
    documents, text_bytes = (_inferred(looks, figure, size) for figure in ("documents", "text_bytes"))
    return SourceSample(name, documents, text_bytes, [batch for look in looks for batch in look.sample])


def _inferred(looks: Sequence[Look], figure: str, size: int) -> Amount:
    """A figure for `size` bytes on disk by what those that were read had of it."""
    read = sum(look.disk_bytes for look in looks)
    known = sum(getattr(look, figure) for look in looks)
    rest = known / read * max(size - read, 0) if read else 0.0
    if not rest:
        return Amount(known)
    densities = np.array([getattr(look, figure) / look.disk_bytes for look in looks if look.disk_bytes])
    if len(densities) == 1:
        return Amount(known + rest, rest * _UNSURE_ALONE)
    spread = 2 * float(densities.std(ddof=1)) / (float(densities.mean()) or 1.0) / math.sqrt(len(densities))
    return Amount(known + rest, rest * max(spread, _UNSURE))


def _look(unit: Unit, layout: Format, count: int) -> Look:
    """Read a unit until there is enough of it, and keep `count` documents that lie evenly in what was read."""
    look, batches = Look(unit.size), []
    done = 0
    for part in unit.parts:
        with streams_opened() as opened:
            for batch in read_part(part, layout, Mishaps("skip")):
                batches.append(batch)
                offsets = Documents(batch).offsets
                look.documents += len(batch)
                look.text_bytes += int(offsets[-1] - offsets[0])
                if look.text_bytes >= _ENOUGH_BYTES and opened:
                    look.disk_bytes = done + min(opened[-1].packed_bytes, part.size)
                    return _sampled(look, batches, count)
        done += part.size
        if look.text_bytes >= _ENOUGH_BYTES:
            look.disk_bytes = done
            break
    return _sampled(look, batches, count)


def _sampled(look: Look, batches: Sequence[pa.RecordBatch], count: int) -> Look:
    """With `count` documents at even distances, or all."""
    count = min(count, look.documents)
    wanted, first, taken = np.arange(count) * look.documents // max(count, 1), 0, []
    for batch in batches:
        rows = wanted[(wanted >= first) & (wanted < first + len(batch))] - first
        taken.append(batch.take(pa.array(rows)))
        first += len(batch)
    look.sample = [start_documents(pa.concat_batches(taken), 0)] if count else []
    return look
