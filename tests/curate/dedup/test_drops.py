"""What wide rules decided about documents, applied to a batch that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.curate.dedup.drops import UnitDrops, alive, drop
from gristmill.curate.ledger import Ledger


def _batch(make_batch: Any, count: int) -> pa.RecordBatch:
    batch = make_batch([f"text {row}" for row in range(count)]).batch
    return batch.append_column("row", pa.array(range(count), pa.int64()))


def _ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_each_dropped_document_names_the_one_that_stays_and_how_near_it_is(make_batch: Any) -> None:
    near = UnitDrops("near", "near_duplicate", _ints(1, 3), _ints(0, 9), np.array([0.8, 0.9]))
    passed = drop(_batch(make_batch, 4), [near], Ledger())
    assert passed.kept.column("doc").to_pylist() == [0, 2]
    (gone,) = passed.dropped
    assert gone.select(["doc", "kept", "value"]).to_pydict() == {"doc": [1, 3], "kept": [0, 9], "value": [0.8, 0.9]}


def test_the_first_rule_that_names_a_document_is_its_reason(make_batch: Any) -> None:
    ledger = Ledger()
    rules = [UnitDrops("exact", "duplicate", _ints(1), _ints(0)), UnitDrops("near", "near_duplicate", _ints(1, 2))]
    passed = drop(_batch(make_batch, 3), rules, ledger)
    assert passed.kept.column("doc").to_pylist() == [0]
    assert ledger.facts["reasons"] == {"exact": {"duplicate": 1}, "near": {"near_duplicate": 1}}


def test_a_rule_that_names_no_document_of_the_batch_drops_nothing(make_batch: Any) -> None:
    batch = _batch(make_batch, 2)
    passed = drop(batch, [UnitDrops("exact", "duplicate", _ints()), UnitDrops("id", "twice", _ints(7))], Ledger())
    assert passed.kept == batch and passed.dropped == []


def test_documents_that_are_gone_are_left_out_where_there_are_any(engine: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc": [1, 2, 3], "n": [4, 5, 6]}), tmp_path / "all.parquet")
    pq.write_table(pa.table({"doc": [2, 9]}), tmp_path / "gone.parquet")
    tables = {"documents": [tmp_path / "all.parquet"], "dropped": [tmp_path / "gone.parquet"]}
    for dropped, left in ((False, [4, 5, 6]), (True, [4, 6])):
        sql = f"SELECT n FROM {alive('documents', 'doc, n', dropped)} AS alive ORDER BY n"
        (found,) = engine.query(sql, tables, tmp_path / f"{dropped}.parquet")
        assert pq.read_table(found)["n"].to_pylist() == left
