"""Verification: the real Jaccard similarity of each candidate pair, from shingle sets on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.core.progress import Progress
from gristmill.curate.dedup.index import INDEX_UNIT, part_path
from gristmill.curate.dedup.near import Near
from gristmill.curate.dedup.sets import Sets, write_sets
from gristmill.curate.dedup.units import NearUnit, documents_of
from gristmill.curate.documents import Ints
from gristmill.engine.base import Engine
from gristmill.places.door import place_at

# A part of the verification is some 500,000 pairs: row groups of DuckDB's files have 122,880 rows.
_ROW_GROUPS_A_PART = 4


@dataclass(frozen=True)
class _Shingling:
    """The candidates among the documents of a unit, and the file that gets their sets."""

    unit: NearUnit
    wanted: Path
    options: Near
    out: Path


@dataclass(frozen=True)
class _Comparison:
    """Some row groups of the candidates, the folder with the sets, and the file that gets the verified pairs."""

    candidates: Path
    row_groups: Sequence[int]
    work: Path
    options: Near
    out: Path


def verified(
    engine: Engine, candidates: Path, units: Sequence[NearUnit], options: Near, work: Path, progress: Progress
) -> list[Path]:
    """Files of pairs at or over the threshold (earlier, later, similarity), together in the candidates' order."""
    parts = _comparisons(candidates, work, options)
    missing = [part for part in parts if not part.out.exists()]
    if missing:
        _shingle_all(engine, candidates, units, options, work, progress)
        progress.start("near duplicates: verification", len(missing), "parts")
        for _ in engine.map(_compare, missing):
            progress.advance(1)
    for unit in units:
        _sets_path(unit.unit, work, options).unlink(missing_ok=True)
    return [part.out for part in parts]


def _shingle_all(
    engine: Engine, candidates: Path, units: Sequence[NearUnit], options: Near, work: Path, progress: Progress
) -> None:
    wanted = work / "wanted.parquet"
    if not wanted.exists():
        both = "SELECT earlier AS doc FROM candidates UNION SELECT later AS doc FROM candidates"
        engine.query(f"SELECT doc FROM ({both}) AS b WHERE doc >= 0 ORDER BY doc", {"candidates": [candidates]}, wanted)
    parts = [_Shingling(unit, wanted, options, _sets_path(unit.unit, work, options)) for unit in units]
    missing = [part for part in parts if not part.out.exists()]
    progress.start("near duplicates: shingle sets", len(missing), "parts")
    for _ in engine.map(_shingle, missing):
        progress.advance(1)


def _shingle(part: _Shingling) -> None:
    docs = documents_of(part.unit.unit, part.wanted)
    write_sets(part.unit.texts, docs, docs, part.options, part.out)


def _comparisons(candidates: Path, work: Path, options: Near) -> list[_Comparison]:
    import pyarrow.parquet as pq

    groups = range(pq.ParquetFile(candidates).num_row_groups)
    cuts = [groups[i : i + _ROW_GROUPS_A_PART] for i in range(0, len(groups), _ROW_GROUPS_A_PART)]
    return [
        _Comparison(candidates, list(cut), work, options, work / f"edges-{i:05d}.parquet") for i, cut in enumerate(cuts)
    ]


def _compare(part: _Comparison) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gristmill.curate.dedup import pair_kernels

    pairs = pq.ParquetFile(part.candidates).read_row_groups(part.row_groups, columns=["earlier", "later"])
    docs = np.concatenate([pairs["earlier"].to_numpy(), pairs["later"].to_numpy()])
    # The files stay open until the pairs are compared.
    addresses, sizes, files = _locate(docs, part)
    similarity = np.empty(len(pairs), np.float64)
    pair_kernels.similarities(addresses.reshape(2, -1), sizes.reshape(2, -1), part.options.threshold, similarity)
    del files
    near = similarity >= part.options.threshold
    edges = pairs.append_column("similarity", pa.array(similarity)).filter(pa.array(near))
    with place_at(part.out).writing() as file:
        pq.write_table(edges, file, compression="zstd")


def _locate(docs: Ints, part: _Comparison) -> tuple[Ints, Ints, list[Sets]]:
    """Addresses and sizes of the sets of `docs`; they hold while the returned files are open."""
    addresses, sizes = np.empty_like(docs), np.empty_like(docs)
    files = []
    for unit, rows in _by_unit(docs):
        files.append(Sets(_sets_path(unit, part.work, part.options)))
        addresses[rows], sizes[rows] = files[-1].locate(docs[rows])
    return addresses, sizes, files


def _by_unit(docs: Ints) -> Iterator[tuple[int, Any]]:
    """The rows of each unit."""
    order = np.argsort(docs, kind="stable")
    units, begins = np.unique(docs[order] >> 32, return_index=True)
    yield from zip(units.tolist(), np.split(order, begins[1:]), strict=True)


def _sets_path(unit: int, work: Path, options: Near) -> Path:
    if unit >= 0:
        return work / f"sets-{unit:06d}.arrow"
    return part_path(Path(options.index or ""), unit - INDEX_UNIT, "sets.arrow")
