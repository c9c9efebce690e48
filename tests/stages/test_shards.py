"""Which documents a shard holds, and its tokens out of the files of units."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.places import ranges
from gristmill.places.local import Local
from gristmill.stages.relation import Relation
from gristmill.stages.shards import PlanJob, Range, advice, gather, plan_shards, rows_between


def layout(path: Path, lengths: list[int], val: list[bool]) -> Path:
    pq.write_table(
        pa.table({"length": pa.array(lengths, pa.int64()), "val": pa.array(val, pa.bool_())}), path, row_group_size=3
    )
    return path


def test_shards_are_filled_in_order_over_files_each_split_by_itself(tmp_path: Path) -> None:
    files = [layout(tmp_path / "a.parquet", [4, 9, 4, 2], [False, True, False, False]),
             layout(tmp_path / "b.parquet", [3, 30, 1], [False, False, False])]  # fmt: skip
    assert plan_shards(files, 10) == [
        ("train", 0, [Range(files[0], 0, 4)]), ("train", 1, [Range(files[1], 0, 1)]),
        ("train", 2, [Range(files[1], 1, 2)]), ("train", 3, [Range(files[1], 2, 3)]),
        ("val", 0, [Range(files[0], 1, 2)]),
    ]  # fmt: skip


def test_a_plan_comes_back_from_its_marker(tmp_path: Path) -> None:
    file = layout(tmp_path / "a.parquet", [4, 9, 4], [False, True, False])
    job = PlanJob(layout=Relation((file,), "x"), tokens_per_shard=5, folder=tmp_path / "plan")
    planned = list(job.planned(job()))
    assert planned == [(split, number, tuple(ranges)) for split, number, ranges in plan_shards([file], 5)]


def test_rows_are_read_by_the_groups_they_lie_in(tmp_path: Path) -> None:
    file = layout(tmp_path / "a.parquet", list(range(1, 9)), [False] * 8)
    assert [table["length"].to_pylist() for table in rows_between(file, 2, 7)] == [[3], [4, 5, 6], [7]]


@pytest.mark.parametrize("seed", range(20))
def test_tokens_are_gathered_in_the_order_of_the_rows(tmp_path: Path, seed: int) -> None:
    rng, ends, rows = random.Random(seed), [0, 0, 0], []
    for unit, length in ((rng.randrange(3), rng.randrange(1, 9)) for _ in range(rng.randrange(12))):
        rows.append({"unit": unit, "start": ends[unit], "length": length})
        ends[unit] += length
    for unit, end in enumerate(ends):
        (np.arange(end, dtype=np.uint16) + 1000 * unit).tofile(tmp_path / f"{unit:08x}.bin")
    if seed % 2:
        rng.shuffle(rows)
    schema = pa.schema([(name, pa.int64()) for name in ("unit", "start", "length")])
    table, dtype = pa.Table.from_pylist(rows, schema), np.dtype(np.uint16)
    found = gather(tmp_path, table, dtype).tolist()
    with pytest.MonkeyPatch.context() as patch:  # as where files cannot be mapped, by ranges
        patch.setattr(Local, "maps", False)
        patch.setattr(ranges, "SPAN_BYTES", 8)
        patch.setattr(ranges, "GAP_BYTES", 2)
        assert gather(tmp_path, table, dtype).tolist() == found
    assert found == [1000 * row["unit"] + row["start"] + i for row in rows for i in range(row["length"])]


def test_whoever_gets_thousands_of_shards_is_told_of_larger_ones() -> None:
    assert advice(1000, 100_000_000, 2) is None and advice(5000, 1_000_000_000, 2) is None
    told = advice(2500, 100_000_000, 2)
    assert told and "2,500 shards will be written" in told
    assert "tokens_per_shard 1,000,000,000 they would be about 250 of 2 GB" in told
    assert "tokens_per_shard 500,000,000 they would be about 500" in str(advice(2500, 100_000_000, 4))
