"""A run before it runs: its figures hold together, and are those of a loader that counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.loader.demand import Demand
from gristmill.simulate import node

Make = Callable[..., gm.Plan]


def test_an_epoch_fetches_each_block_once_and_serves_its_tokens(plan_of: Make) -> None:
    plan = plan_of()
    found = plan.simulate({"bandwidth": "1GB/s", "latency": 0, "step_time": "10ms"})
    demand = Demand(plan, labels=True)
    numbers = np.unique(np.concatenate([
        demand.touches(plan.segment(step), plan.samples(step))[1] for step in range(len(plan))]))  # fmt: skip
    _, starts, ends = demand.byte_ranges(numbers)
    assert found.bytes == (ends - starts).sum() + demand.side_bytes().sum()
    assert found.requests >= len(np.unique(demand.grid.placed(numbers)[0])) and found.steps == len(plan)
    assert found.served_bytes == 2 * len(plan) * 16 * 64 and 1 <= found.bytes / found.served_bytes < 1.3


def test_the_stretches_are_the_whole_run(plan_of: Make) -> None:
    found = plan_of(500).simulate({"bandwidth": "1MB/s", "cache": "1GB"})
    assert sum(part.bytes for part in found.stretches) == found.bytes
    assert sum(part.requests for part in found.stretches) == found.requests
    assert sum(part.stalled_seconds for part in found.stretches) == pytest.approx(found.stalled_seconds)
    assert found.stretches[-1].to_step == 500 and len(found.stretches) == 60
    assert found.seconds == pytest.approx(sum(part.seconds for part in found.stretches) + found.first_batch_seconds)


def test_a_slow_network_stalls_as_long_as_its_bytes_take(plan_of: Make) -> None:
    found = plan_of().simulate({"bandwidth": "100kB/s", "latency": 0, "step_time": "1ms"})
    assert found.seconds == pytest.approx(found.bytes / 100_000, rel=0.05)
    assert found.stalled_share > 0.5 and found.stalled_share == pytest.approx(found.least_stalled_share, abs=0.01)


def test_a_cache_spares_the_second_epoch_and_the_other_ranks(plan_of: Make) -> None:
    plan = plan_of(1100)  # nearly two epochs
    plain, kept = (plan.simulate({"ranks": 2, "cache": cache}) for cache in (0, "1GB"))
    assert kept.bytes < plain.bytes and kept.cache_bytes > 0 == plain.cache_bytes


def test_ranks_that_share_a_cache_fetch_the_sums_of_its_blocks_each(plan_of: Make, monkeypatch: Any) -> None:
    plan = plan_of(8, locality={"block": 2048, "window": 1})  # all read of one block, which the first has fetched
    sums, counted = Demand(plan, labels=True).side_bytes(), {}
    for ranks in (1, 2, 4):
        counted[ranks] = plan.simulate({"ranks": ranks, "cache": "1GB"}).bytes
        with monkeypatch.context() as patched:
            patched.setattr(Demand, "side_bytes", lambda demand: np.zeros_like(sums))
            counted[ranks] -= plan.simulate({"ranks": ranks, "cache": "1GB"}).bytes
    assert counted == {ranks: ranks * counted[1] for ranks in (1, 2, 4)} and counted[1] > 0


def test_the_smallest_cache_is_one_with_which_nothing_more_is_waited(plan_of: Make, monkeypatch: Any) -> None:
    monkeypatch.setattr(node, "CACHE_BYTES", 0)
    monkeypatch.setattr(node, "READAHEAD_BYTES", 1 << 17)
    options = {"bandwidth": "1MB/s", "step_time": "1ms", "latency": 0}
    plan = plan_of(2000)
    found = plan.simulate(options)
    assert found.smallest_cache_bytes > 0 and found.stalled_share > found.least_stalled_share + 0.01
    again = plan.simulate({**options, "cache": found.smallest_cache_bytes})
    assert again.stalled_share <= found.least_stalled_share + 0.002


def test_nodes_share_the_rows_and_the_cost_is_that_of_all(plan_of: Make) -> None:
    options = {"per_gb": 1000.0, "per_1000_requests": 1.0}
    one, two = (plan_of(100, locality=None).simulate({**options, "nodes": nodes}) for nodes in (1, 2))
    assert two.served_bytes * 2 == one.served_bytes and two.requests < one.requests
    assert one.cost == pytest.approx(one.bytes / 1e6 + one.requests / 1000)
    assert two.cost == pytest.approx(2 * (two.bytes / 1e6 + two.requests / 1000))
    assert plan_of(100).simulate().cost is None


def test_a_long_run_is_walked_from_its_beginning_and_says_how_far(plan_of: Make, monkeypatch: Any) -> None:
    whole = plan_of(400, locality=None).simulate()
    monkeypatch.setattr(node, "_MOST_SAMPLES", 16 * 100)
    part = plan_of(400, locality=None).simulate()
    assert (part.steps, part.simulated_steps, whole.simulated_steps) == (400, 100, 400)
    assert part.bytes == pytest.approx(whole.bytes, rel=0.05) and part.seconds == pytest.approx(whole.seconds, rel=0.05)


@pytest.mark.parametrize("options", [{"cut": "pad", "locality": None}, {"cut": "window", "locality": None},
                                     {"shuffle": False, "locality": None}])  # fmt: skip
def test_every_cut_can_be_simulated(plan_of: Make, options: dict[str, Any]) -> None:
    found = plan_of(20, **options).simulate()
    assert found.bytes > 0 and found.requests > 0 and found.first_batch_seconds > 0


def test_an_endless_plan_needs_steps(store: gm.Store) -> None:
    plan = gm.Plan({"a": store, "b": store}, {"a": 0.5, "b": 0.5}, seq_len=64, batch_size=16)
    with pytest.raises(ConfigError, match="endless: say how many steps"):
        plan.simulate()
    assert plan.simulate({"steps": 30}).steps == 30


def test_a_compressed_store_is_told_by_the_size_of_its_files(tmp_path: Any, make_store: Any) -> None:
    root = make_store(tmp_path / "z", [[i % 7 for i in range(80_000)]] * 4, tokens_per_shard=10**6, compression="zstd")
    found = gm.Plan(gm.open(root), seq_len=64, batch_size=16, steps=100).simulate()
    assert found.bytes < (root / "train" / "shard-00000.bin.zst").stat().st_size * 2
