"""Candidate pairs of signed documents: who shares a bucket, and what happens where a bucket is crowded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.curate.dedup import candidates
from gristmill.curate.dedup.near import Near

OPTIONS = Near(permutations=4, bands=2, rows=2)


def asked(engine: Any, folder: Path, step: str, sql: str, **tables: Path) -> list[dict[str, Any]]:
    (found,) = engine.query(sql, {name: [file] for name, file in tables.items()}, folder / f"{step}.parquet")
    rows: list[dict[str, Any]] = pq.read_table(found).to_pylist()
    return rows


def pairs_of(
    engine: Any, folder: Path, keys: dict[int, tuple[int, int]], options: Near = OPTIONS
) -> set[tuple[int, int]]:
    signed = {"doc": list(keys), "keep_key": [0] * len(keys), "key_00": [a for a, _ in keys.values()],
              "key_01": [b for _, b in keys.values()]}  # fmt: skip
    pq.write_table(pa.table(signed), folder / "signed.parquet")
    asked(engine, folder, "members", candidates.members(options, range(2), False), signatures=folder / "signed.parquet")
    members = folder / "members.parquet"
    asked(engine, folder, "pairs", candidates.pairs(options.max_bucket), members=members)
    found = asked(engine, folder, "distinct", candidates.DISTINCT_PAIRS, pairs=folder / "pairs.parquet")
    return {(row["earlier"], row["later"]) for row in found}


def test_documents_that_share_a_key_are_a_pair_once_and_those_of_an_index_come_first(
    engine: Any, tmp_path: Path
) -> None:
    keys = {-5: (1, 60), -4: (1, 61), 0: (1, 50), 1: (2, 50), 2: (2, 50), 3: (9, 99)}
    assert pairs_of(engine, tmp_path, keys) == {(-5, 0), (-4, 0), (0, 1), (0, 2), (1, 2)}
    wanted = asked(engine, tmp_path, "wanted", candidates.WANTED, candidates=tmp_path / "distinct.parquet")
    assert [row["doc"] for row in wanted] == [0, 1, 2]


def test_in_a_crowd_each_is_compared_with_the_first_and_its_neighbours(engine: Any, tmp_path: Path) -> None:
    options = Near(permutations=4, bands=2, rows=2, max_bucket=5)
    found = pairs_of(engine, tmp_path, {doc: (1, 100 + doc) for doc in range(60)}, options)
    near = {
        (a, b) for a in range(60) for b in range(a + 1, 60) if a < candidates.LEADERS or b - a <= candidates.NEIGHBOURS
    }
    assert found == near
    crowds = asked(engine, tmp_path, "crowded", candidates.crowded(5), members=tmp_path / "members.parquet")
    assert crowds == [{"size": 60, "doc": 0, "buckets": 1}]
    (alarm,) = candidates.alarms(options, crowds)
    assert "1 buckets of near-duplicate candidates hold more than 5 documents, the largest 60" in alarm
    assert candidates.alarms(options, []) == []


def test_few_documents_are_done_in_one_query_and_many_band_by_band() -> None:
    assert candidates.passes(Near(), 10) == [range(16)]
    assert candidates.passes(Near(), candidates.ROWS_A_PASS // 5) == [range(i, min(i + 5, 16)) for i in range(0, 16, 5)]
    assert candidates.passes(Near(), 1 << 40) == [range(i, i + 1) for i in range(16)]
