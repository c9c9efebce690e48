"""The record of a run as it really went: of a step that was served again, the last time; of several ranks, all of them.

A run is a folder with `served.parquet`, which `loader.record` keeps, and `plan.json` beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.core.arrays import Ints, Mask
from gristmill.core.errors import ConfigError, StoreError
from gristmill.loader.plan_file import load_plan
from gristmill.loader.record import PLAN, RECORD, is_run, parts_of, record_in
from gristmill.order.plan import Plan
from gristmill.places.address import Address
from gristmill.places.door import place_at

Floats = npt.NDArray[np.float64]
_KEYS = ["rank", "attempt", "step", "world_size"]
_FIGURES = ["at", "waited", "tokens", "loss", "highest_loss"]
CACHE = ["cache_hits", "cache_misses", "fetched_bytes"]
# A file that is read may just have become part of a larger one: then the folder is looked at once more.
_LOOKS = 5


@dataclass(frozen=True, eq=False)
class Served:
    """One row a step, in rising order: when it was taken, seconds waited, tokens of all ranks, and its loss.

    `told` is where a loss is known (it may be known to be NaN). tokens are those of the ranks that kept a record, times
    what the others must have had; waited is that of the rank that waited longest, loss their mean, highest_loss that of
    the row that had the highest, NaN where losses of rows are not known or an older version has kept the record.
    """

    step: Ints
    at: Floats
    waited: Floats
    tokens: Floats
    loss: Floats
    highest_loss: Floats
    told: Mask
    cache: dict[str, int]

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of all files, sorted by rank, attempt and step: at most one each."""

    rank: Ints
    attempt: Ints
    step: Ints
    world_size: Ints
    told: Mask
    figures: dict[str, Floats]

    def where(self, kept: Mask) -> _Rows:
        figures = {name: values[kept] for name, values in self.figures.items()}
        keys = (self.rank[kept], self.attempt[kept], self.step[kept], self.world_size[kept])
        return _Rows(*keys, self.told[kept], figures)


@dataclass(frozen=True)
class Run:
    """A folder in which a loader has recorded, and its plan, if it had one: a stream has none."""

    folder: Address
    record: Address
    plan: Plan | None

    def served(self) -> Served:
        """All steps that were served, as they are on disk now."""
        table = _read(self.record, [*_KEYS, *_FIGURES, *CACHE])
        return _joined(_winning(_rows(table)), _cache(table))

    def row_losses(self, steps: Sequence[int]) -> dict[int, Floats]:
        """Of those steps that have any the losses of their rows, as the global batch has them; NaN where unknown."""
        table = _read(self.record, [*_KEYS, "tokens", "row_losses"], steps)
        kept = _winning(_rows(table))
        last = dict.fromkeys(zip(kept.rank.tolist(), kept.attempt.tolist(), kept.step.tolist(), strict=True))
        found: dict[int, Floats] = {}
        told = table.filter(pc.is_valid(table["row_losses"]))
        columns = [told[name].to_pylist() for name in (*_KEYS, "row_losses")]
        for rank, attempt, step, world_size, losses in zip(*columns, strict=True):
            if (rank, attempt, step) in last:
                rows = found.setdefault(step, np.full(len(losses) * world_size, np.nan))
                rows[rank::world_size][: len(losses)] = losses
        return found


def as_run(path: Address) -> Run:
    """The run in a folder, or that of the record itself."""
    if not is_run(path):
        raise ConfigError(
            f"{path} holds no record of a run: give the folder of {RECORD}, which loader.record() writes there."
        )
    record = record_in(path)
    plan = record.parent / PLAN
    return Run(record.parent, record, load_plan(plan) if place_at(plan).exists() else None)


def _read(record: Address, columns: list[str], steps: Sequence[int] | None = None) -> pa.Table:
    """Such of these columns as there are, of all files one after the other; of some steps alone, if any are named."""
    for look in range(_LOOKS):
        try:
            tables = [_read_part(record / part.name, columns, steps) for part in parts_of(record)]
        except FileNotFoundError:
            if look == _LOOKS - 1:
                raise
        else:
            break
    return pa.concat_tables(tables, promote_options="default")


def _read_part(path: Address, columns: list[str], steps: Sequence[int] | None) -> pa.Table:
    try:
        with place_at(path).arrow() as file:
            table = pq.ParquetFile(file).read(columns=columns, use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise StoreError(f"{path} is damaged ({error}): remove it, and its steps are not known any more.") from error
    return table if steps is None else table.filter(pc.is_in(table["step"], pa.array(steps, pa.int64())))


def _rows(table: pa.Table) -> _Rows:
    """The rows by rank, attempt and step: a loss that was told later is put to its step."""
    keys = [table[name].to_numpy().astype(np.int64) for name in _KEYS]
    order = np.lexsort((np.arange(table.num_rows), keys[2], keys[1], keys[0]))
    rank, attempt, step, world_size = (key[order] for key in keys)
    ends = _ends(rank, attempt, step)
    found = {name: _last_known(table[name].take(order), ends) for name in _FIGURES if name in table.column_names}
    told = found["loss"][1] if "loss" in found else np.zeros(len(ends), np.bool_)
    figures = {name: values for name, (values, _) in found.items()}
    rows = _Rows(rank[ends], attempt[ends], step[ends], world_size[ends], told, figures)
    return rows.where(found["tokens"][1])  # a loss alone tells of no batch


def _ends(*keys: Ints) -> Ints:
    """Where the last row of each stretch of equal keys is."""
    changes = [np.append(key[1:] != key[:-1], True) for key in keys if len(key)]
    return np.flatnonzero(np.any(changes, axis=0)) if changes else np.empty(0, np.int64)


def _last_known(column: pa.ChunkedArray, ends: Ints) -> tuple[Floats, Mask]:
    """Of each stretch of rows the last value that is not null, and where there is one."""
    valid = pc.is_valid(column).to_numpy()
    values = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy()
    last = np.maximum.accumulate(np.where(valid, np.arange(len(values)), -1))[ends]
    known = last > np.append(-1, ends[:-1])
    return np.where(known, values[last], np.nan), known


def _winning(rows: _Rows) -> _Rows:
    """Without what was done again: a rank's rows from the first step of a later attempt on.

    Where the number of ranks changed, the lowest rank tells how many there were at a step.
    """
    kept = np.ones(len(rows.step), np.bool_)
    for rank in np.unique(rows.rank):
        own = np.flatnonzero(rows.rank == rank)
        attempts, firsts = np.unique(rows.attempt[own], return_index=True)
        begun = rows.step[own[firsts]]
        later = np.append(np.minimum.accumulate(begun[::-1])[::-1][1:], np.iinfo(np.int64).max)
        kept[own] = rows.step[own] < later[np.searchsorted(attempts, rows.attempt[own])]
    rows = rows.where(kept)
    steps, first = np.unique(rows.step, return_index=True)  # rows are sorted by rank, so the lowest comes first
    return rows.where(rows.world_size == rows.world_size[first][np.searchsorted(steps, rows.step)])


def _joined(rows: _Rows, cache: dict[str, int]) -> Served:
    """The rows of all ranks as one a step."""
    steps, first, which = np.unique(rows.step, return_index=True, return_inverse=True)
    ranks = np.bincount(which, minlength=len(steps))
    tokens = np.bincount(which, rows.figures["tokens"], len(steps)) * rows.world_size[first] / np.maximum(ranks, 1)
    told = np.bincount(which[rows.told], minlength=len(steps))
    loss = np.bincount(which[rows.told], rows.figures["loss"][rows.told], len(steps)) / np.maximum(told, 1)
    at, waited = np.zeros(len(steps)), np.zeros(len(steps))
    np.maximum.at(at, which, rows.figures["at"])
    np.maximum.at(waited, which, rows.figures["waited"])
    highest = np.full(len(steps), np.nan)
    if "highest_loss" in rows.figures:
        np.fmax.at(highest, which, rows.figures["highest_loss"])
    return Served(steps, at, waited, tokens, np.where(told > 0, loss, np.nan), highest, told > 0, cache)


def _cache(table: pa.Table) -> dict[str, int]:
    """What the processes of the last attempt of each rank have counted."""
    known = table.filter(pc.is_valid(table[CACHE[0]])).select(["rank", "attempt", *CACHE])
    latest = known.group_by("rank").aggregate([("attempt", "max")])
    last = known.join(latest, ["rank", "attempt"], ["rank", "attempt_max"], "inner")
    counts = last.group_by("rank").aggregate([(name, "max") for name in CACHE])
    return {name: int(pc.sum(counts[f"{name}_max"]).as_py() or 0) for name in CACHE}
