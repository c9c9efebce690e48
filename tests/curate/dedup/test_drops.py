"""What wide rules decided about documents, applied to a batch that holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.curate.dedup.drops import UnitDrops, drop
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
