"""The assertions that users may borrow: each must fail where its promise is broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.loader.fill import Batch
from gristmill.testing import (
    EOS,
    assert_equal_batches,
    assert_resumes_anywhere,
    assert_same_on_any_world,
    join_ranks,
    random_documents,
    served_steps,
    tiny_store,
)


@pytest.fixture
def plan(tmp_path: Path) -> gm.Plan:
    options = gm.PlanOptions(skip=[(2, 4)])
    return gm.Plan({"web": tiny_store(tmp_path / "web")}, seq_len=16, batch_size=4, options=options)


def test_a_tiny_store_holds_the_documents_it_was_given(tmp_path: Path) -> None:
    documents = random_documents(7)
    store = tiny_store(tmp_path, documents, shards=3)
    assert store.num_shards == 3 and store.num_documents == 7
    assert [store.document(i).tokens.tolist() for i in range(7)] == [[*document, EOS] for document in documents]
    assert random_documents(7) == documents != random_documents(7, seed=1)


def test_the_steps_that_are_served_are_those_not_skipped(plan: gm.Plan) -> None:
    assert served_steps(plan)[:4] == [0, 1, 4, 5] and len(served_steps(plan)) == len(list(gm.Loader(plan, threads=0)))


def test_a_plan_keeps_its_promises(plan: gm.Plan) -> None:
    assert_same_on_any_world(plan, world_sizes=(1, 2, 4), threads=(0, 1))
    assert_resumes_anywhere(plan, at=(0, 5), world_size=2)


def test_another_plan_does_not_pass_for_the_same(plan: gm.Plan, tmp_path: Path) -> None:
    longer = gm.Plan({"web": tiny_store(tmp_path / "web")}, seq_len=16, batch_size=4, seed=1)
    with pytest.raises(gm.StateError):
        assert_resumes_anywhere(plan, longer, at=(5,))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda batch: {**batch, "input_ids": batch["input_ids"] + 1}, "step 3: input_ids differs"),
        (lambda batch: {**batch, "input_ids": batch["input_ids"].astype(np.int32)}, "step 3: dtype of input_ids"),
        (lambda batch: {**batch, "more": batch["input_ids"]}, "step 3: keys"),
    ],
)
def test_batches_that_differ_in_anything_are_told_apart(plan: gm.Plan, change: object, what: str) -> None:
    batch = gm.Loader(plan, threads=0).batch(4)
    assert_equal_batches(batch, batch, "step 3")
    assert callable(change)
    with pytest.raises(AssertionError, match=what):
        assert_equal_batches(change(batch), batch, "step 3")


def test_the_parts_of_ranks_are_joined_row_by_row(plan: gm.Plan) -> None:
    parts: list[Batch] = [gm.Loader(plan, rank, 2, threads=0).batch(0) for rank in (0, 1)]
    assert_equal_batches(join_ranks(parts), gm.Loader(plan, threads=0).batch(0), "step 0")
