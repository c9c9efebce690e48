"""The search for near duplicates from signatures to evidence, each step resumable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gristmill.core.progress import Progress
from gristmill.curate.dedup.candidates import Bands
from gristmill.curate.dedup.index import Index, open_index
from gristmill.curate.dedup.near import Near
from gristmill.curate.dedup.resolve import resolve
from gristmill.curate.dedup.units import NearUnit
from gristmill.curate.dedup.verify import verified
from gristmill.engine.base import Engine


@dataclass(frozen=True)
class NearResult:
    """Which documents go, and what it took.

    `evidence` is a Parquet file (doc, kept, kept_id, similarity) in the order of doc: `kept` is negative and `kept_id`
    given where the kept one is in the index; `similarity` is null without verification.
    """

    evidence: Path
    alarms: Sequence[str]
    candidates: int
    edges: int
    dropped: int


def near_duplicates(
    engine: Engine, units: Sequence[NearUnit], options: Near, dropped: Sequence[Path], work: Path, progress: Progress
) -> NearResult:
    """Find the near duplicates among the signed documents of `units` that are in no file of `dropped` (doc).

    Whatever is finished in the folder `work` is not done again: it belongs to these very inputs and options.
    """
    work.mkdir(parents=True, exist_ok=True)
    index = open_index(options)
    bands = Bands(engine, [*index.keys, *(unit.signatures for unit in units)], dropped, options, work)
    candidates = bands.candidates(progress)
    edges = verified(engine, candidates, units, options, work, progress) if options.verify else [candidates]
    evidence = _evidence(engine, edges, index, work)
    counts = {"candidates": _rows([candidates]), "edges": _rows(edges), "dropped": _rows([evidence])}
    return NearResult(evidence, [*index.notes, *bands.alarms()], **counts)


def _evidence(engine: Engine, edges: Sequence[Path], index: Index, work: Path) -> Path:
    resolved, out = work / "resolved.parquet", work / "evidence.parquet"
    if not resolved.exists():
        resolve(edges, resolved)
    if out.exists():
        return out
    kept_id, joined = (
        ("ids.id", "LEFT JOIN ids ON resolved.kept = ids.doc") if index.ids else ("CAST(NULL AS STRING)", "")
    )
    columns = f"resolved.doc, resolved.kept, {kept_id} AS kept_id, resolved.similarity"
    tables = {"resolved": [resolved], "ids": index.ids} if index.ids else {"resolved": [resolved]}
    engine.query(f"SELECT {columns} FROM resolved {joined} ORDER BY resolved.doc", tables, out)
    return out


def _rows(files: Sequence[Path]) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(file).num_rows for file in files)
