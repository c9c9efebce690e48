"""The order of documents in a store: as they came, shuffled by seed, or sampled and repeated to a mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gristmill.core.errors import SourceError
from gristmill.core.hashing import derive_key
from gristmill.engine.base import Engine
from gristmill.places.door import place_at
from gristmill.recipe import MixOptions
from gristmill.stages.tokens import SHUFFLE_KEYS


@dataclass(frozen=True)
class Share:
    """What a mix takes of a source: `passes` whole times all of it, and part of it once more."""

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


def shuffled(engine: Engine, files: Sequence[Path], out: Path) -> None:
    """All documents in the order of their shuffle key."""
    engine.query("SELECT * FROM documents ORDER BY shuffle, doc", {"documents": files}, out)


def mixed(engine: Engine, files: Sequence[Path], parts: Sequence[Share], mix: MixOrder, out: Path) -> None:
    """The documents of a mix: each source in the order of its shuffle key, over and over, until its share is full.

    Copies get their number after the id (`id#2` is the second). In tokens, the document that reaches the share is the
    last one taken. The result is in the order of input, copy after copy, or shuffled.
    """
    plan = out.with_name("passes.parquet")
    _write_passes(plan, parts, mix.seed)
    engine.query(_mix_query(mix), {"documents": files, "passes": [plan]}, out)


@dataclass(frozen=True)
class MixOrder:
    """How a mix is counted and ordered, and the columns it carries."""

    unit: str
    shuffle: bool
    seed: int
    columns: Sequence[str]


def _write_passes(path: Path, parts: Sequence[Share], seed: int) -> None:
    """A row for each time that a source is gone through: how much of it is wanted, and where its shuffle begins."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "source": part.source,
            "copy": copy,
            "wanted": min(part.available, part.wanted - copy * part.available),
            "turn": derive_key(seed, "copy", part.source, copy) % SHUFFLE_KEYS,
        }
        for part in parts
        for copy in range(-(-part.wanted // part.available) if part.available else 0)
    ]
    schema = pa.schema([("source", pa.string()), *((name, pa.int64()) for name in ("copy", "wanted", "turn"))])
    with place_at(path).writing() as file:
        pq.write_table(pa.Table.from_pylist(rows, schema), file)


def _mix_query(mix: MixOrder) -> str:
    """Rank documents of a source by key, in documents or tokens before each, and take those below what is wanted."""
    places = "OVER (PARTITION BY source ORDER BY shuffle, doc ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    before = f"CAST(sum(length) {places} AS BIGINT) - length" if mix.unit == "tokens" else f"row_number() {places} - 1"
    order = f"(shuffle + turn) % {SHUFFLE_KEYS}, doc, copy" if mix.shuffle else "copy, doc"
    carried = ", ".join(f'ranked."{name}"' for name in mix.columns if name != "id")
    return f"""
        SELECT {carried}, CASE WHEN copy = 0 THEN id ELSE concat(id, '#', CAST(copy + 1 AS VARCHAR(20))) END AS id
        FROM (SELECT *, {before} AS before FROM documents) AS ranked
        JOIN passes ON ranked.source = passes.source AND ranked.before < passes.wanted
        ORDER BY {order}"""
