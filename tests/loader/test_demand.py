"""What a step reads is known before it is read: blocks of the plan, once each, in the order of first use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.loader.demand import Demand, extent_tokens, window_bytes

Make = Callable[..., Path]
MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path, make_store: Make) -> gm.Store:
    documents = [[(7 * i + j) % 1000 for j in range(3000)] for i in range(120)]
    return gm.open(make_store(tmp_path / "s", documents, tokens_per_shard=100_000))


def plan_of(store: gm.Store, **options: Any) -> gm.Plan:
    steps = None if not options.get("phases") else 40
    return gm.Plan(store, seq_len=64, batch_size=8, steps=steps, options=gm.PlanOptions(**options))


def test_an_epoch_reads_each_block_of_the_plan_once_and_hardly_more_bytes_than_it_serves(store: gm.Store) -> None:
    plan = plan_of(store, locality={"block": 512, "window": 2})
    demand = Demand(plan, labels=True)
    seen: dict[tuple[int, int], int] = {}
    for touched in demand.of_steps(range(len(plan))):
        for shard, start, end in zip(*(column.tolist() for column in touched), strict=True):
            assert seen.setdefault((shard, start), end) == end
    blocks = -(-len(plan) * 8 * 64 // 32_768)
    assert blocks <= len(seen) <= blocks + store.num_shards - 1  # one more where a block crosses the edge of a shard
    assert sum(end - start for (_, start), end in seen.items()) < 1.2 * 2 * len(plan) * 8 * 64


def test_extents_are_in_the_order_of_the_rows(store: gm.Store) -> None:
    plan = plan_of(store)
    shards, starts, ends = Demand(plan, labels=False).of(plan.segment(3), plan.samples(3))
    first = plan.samples(3)[:, 2] * 64 * 2
    bases = np.append(0, np.cumsum(store.files.tokens))[shards] * 2
    assert ((starts + bases <= first) & (first < ends + bases)).all() and (ends - starts <= 2 * 4096).all()


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, 64),
        ({"locality": {"block": 512, "window": 4}}, 512 * 64),
        ({"shuffle": False}, MIB // 2),
        ({"cut": "window"}, 2048),
        ({"cut": "pad", "locality": {"block": 64, "window": 4}}, 32_768),
        ({"phases": [{"from_step": 20, "seq_len": 32}]}, 32),
        ({"unit": 128, "locality": {"block": 512, "window": 4}}, 512 * 64),
    ],
)
def test_an_extent_is_what_the_order_reads_together(store: gm.Store, options: Any, tokens: int) -> None:
    assert extent_tokens(plan_of(store, **options), [2]) == (tokens,)


@pytest.mark.parametrize(
    ("together", "options", "tokens"),
    [
        (8, {"locality": {"block": 256, "window": 4}}, 32_768),
        (8, {"locality": {"block": 128, "window": 4}}, 2048),  # a range has more bins than two blocks
        (8, {"shuffle": False}, 32_768),
        (8, {}, 2048),
        (120, {"locality": {"block": 256, "window": 4}}, 2048),
    ],
)
def test_packed_documents_are_read_together_where_ranges_are_as_small_as_blocks(
    store: gm.Store, together: int, options: Any, tokens: int
) -> None:
    gm.index(store, 64, range_documents=together)
    assert extent_tokens(plan_of(store, cut="pack", **options), [2]) == (tokens,)


def test_a_block_beyond_two_mebibytes_is_read_in_equal_parts(store: gm.Store) -> None:
    plan = plan_of(store, locality={"block": 5000, "window": 1})
    assert extent_tokens(plan, [8]) == (160_000,)


def test_what_a_window_holds_is_known(store: gm.Store) -> None:
    assert window_bytes(plan_of(store, locality={"block": 512, "window": 4}), [2], 0) == 5 * 512 * 64 * 2
    assert window_bytes(plan_of(store), [2], 0) == 0


@pytest.mark.parametrize("cut", ["chunk", "pad"])
def test_what_rows_touch_is_together_what_their_step_touches(store: gm.Store, cut: str) -> None:
    plan = plan_of(store, cut=cut)
    demand, samples = Demand(plan, labels=True), plan.samples(3)
    rows, numbers = demand.touches(plan.segment(3), samples)
    assert np.unique(rows).tolist() == list(range(8)) and (np.diff(rows) >= 0).all()
    shards, places = demand.extents(plan.segment(3), samples)
    touched = zip(*(column.tolist() for column in demand.grid.placed(numbers)), strict=True)
    assert list(dict.fromkeys(touched)) == list(zip(shards.tolist(), places.tolist(), strict=True))
