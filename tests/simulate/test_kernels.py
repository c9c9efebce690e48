"""The clock of a node, by runs that can be reckoned by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.simulate.kernels import pass_time

KB = 1000


def passed(
    groups: list[list[int]], *, ranks: int = 1, step: float = 1.0, bandwidth: float = KB, latency: float = 0.0,
    interval: float = 0.0, sums: int = 0, ahead: int = 100 * KB, connections: int = 4,
    shards: list[int] | None = None, placed: list[int] | None = None, starts: list[int] | None = None,
) -> tuple[list[float], list[float], float]:  # fmt: skip
    """When steps begin, how long they wait, and the end: a step a group, whose requests are so large on every rank."""
    sizes = [size for _ in range(ranks) for group in groups for size in group]
    of_group = [g for _ in range(ranks) for g, group in enumerate(groups) for _ in group]
    one = np.append(0, np.cumsum([len(group) for group in groups]))
    edges = np.stack([one + rank * one[-1] for rank in range(ranks)]).astype(np.int64)
    apart = [100 * KB * KB * i for i in range(len(sizes))]
    rows = sizes, shards or [0] * len(sizes), of_group, placed or range(len(sizes)), starts or apart
    requests = np.array(rows, dtype=np.int64).reshape(5, -1)
    network, limits = (
        np.array([bandwidth, latency, 0.0, interval]),
        np.array([ahead, 4, 2, connections, -(-connections // 2)]),
    )
    count = 1 + max(shards or [0])
    begins, waits, known = np.empty(len(groups)), np.empty(len(groups)), np.zeros((ranks, count), dtype=np.int64)
    numbers, along = np.arange(len(groups)), np.zeros(len(sizes), dtype=np.bool_)
    end = pass_time(edges, numbers, requests, np.full(count, sums), known, network, limits, step, begins, waits, along)
    return begins.round(6).tolist(), waits.round(6).tolist(), round(end, 6)


def test_a_request_takes_its_latency_and_its_bytes() -> None:
    assert passed([[KB]], latency=0.1) == ([1.1], [1.1], 2.1)


def test_a_new_connection_takes_the_latency_twice_but_for_the_one_that_opened_the_store() -> None:
    assert passed([[1]], latency=0.1, bandwidth=1e12)[0] == [0.1]
    assert passed([[1, 1]], latency=0.1, bandwidth=1e12)[0] == [0.2]


def test_requests_share_the_bandwidth_in_turn_and_are_done_when_their_bytes_are() -> None:
    assert passed([[KB, KB]])[0] == [2.0]
    assert passed([[500], [2 * KB]], step=0)[0] == [0.5, 2.5]
    part = 65_536  # of which the first has two, and the second one, of which a piece comes between them
    assert passed([[2 * part], [part]], step=0, bandwidth=part)[0] == [2.381966, 3.0]


def test_what_is_fetched_in_time_is_not_waited_for() -> None:
    begins, waits, end = passed([[100], [100], [100]])
    assert waits[1:] == [0, 0] and end == begins[0] + 3


def test_where_steps_are_quicker_than_the_network_the_run_is_as_long_as_its_bytes_take() -> None:
    _, waits, end = passed([[KB]] * 10, step=0.1, connections=1)
    assert end == pytest.approx(10.1) and sum(waits) == pytest.approx(9.1)


def test_less_is_on_its_way_where_the_bound_is_small() -> None:
    groups = [[KB]] * 30
    free, bound = (passed(groups, step=1.0, latency=5.0, ahead=ahead, connections=8)[2] for ahead in (100 * KB, 1))
    assert free < bound


def test_requests_go_out_one_interval_after_the_other() -> None:
    assert passed([[1, 1, 1]], bandwidth=1e12, interval=0.5)[0] == [1.0]


def test_connections_bound_how_many_are_under_way() -> None:
    assert passed([[1, 1, 1, 1]], bandwidth=1e12, latency=1.0, connections=1)[0] == [4.0]


def test_neighbours_that_wait_go_out_together_once_some_have_come_from_a_fast_network() -> None:
    before, one = [KB] * 17, {"latency": 1.0, "connections": 1, "step": 0}
    apart = [100 * KB * i for i in range(17)]

    def ends(sizes: list[int], starts: list[int], bandwidth: float = 1e12) -> float:
        found = passed([before, sizes], starts=[*apart, *(10**7 + at for at in starts)], bandwidth=bandwidth, **one)  # type: ignore[arg-type]
        return round(found[0][1] - found[0][0], 2)

    assert ends([1, 1, 1, 1], [0, 2, 1, 3]) == 1.0
    assert ends([1, 1, 1, 1], [0, 2, 7, 6]) == 3.0, "what lies apart goes alone"
    assert ends([3 << 20, 3 << 20], [0, 3 << 20]) == 2.0, "and what is too much for one request"
    assert ends([1, 1, 1, 1], [0, 2, 1, 3], bandwidth=10e6) == 4.0
    assert passed([[1, 1]], starts=[0, 1], bandwidth=1e12, **one)[0] == [2.0]  # type: ignore[arg-type]


def test_only_two_requests_bring_neighbours_at_a_time() -> None:
    apart, pairs = [100 * KB * i for i in range(18)], [10**8 * (i // 2 + 1) + i % 2 for i in range(16)]

    def took(count: int) -> float:
        sizes, starts = [[KB] * 18, [1] * count], [*apart, *pairs[:count]]
        begins = passed(sizes, starts=starts, bandwidth=1e12, latency=1.0, connections=3, step=0)[0]
        return round(begins[1] - begins[0], 2)

    assert took(12) == 3.0 and took(16) == 4.0, "five a second by three connections, not six"


def test_the_sums_of_a_shard_come_once_behind_its_first_bytes_and_all_others_wait_for_them() -> None:
    assert passed([[KB]], sums=500)[0] == [1.5]
    assert passed([[KB], [KB]], sums=500, connections=1, step=0)[0] == [1.5, 2.5]
    assert passed([[500, KB]], sums=500)[0] == [2.0]


def test_what_a_group_lacks_when_it_is_built_is_asked_for_in_the_order_of_its_places() -> None:
    one = {"sums": 1, "latency": 1.0, "bandwidth": 1e12, "connections": 2}
    assert passed([[1, 1, 1]], shards=[0, 1, 0], **one)[0] == [3.0]  # type: ignore[arg-type]
    assert passed([[1, 1, 1]], shards=[0, 1, 0], placed=[0, 2, 1], **one)[0] == [4.0]  # type: ignore[arg-type]


def test_ranks_share_the_network_and_begin_a_step_together() -> None:
    assert passed([[KB]], ranks=3)[0] == [3.0]
    begins, _, _ = passed([[KB], [KB]], ranks=2, step=0.5, connections=1)
    assert begins == [2.0, 4.0]


def test_a_run_without_requests_is_its_steps() -> None:
    assert passed([[], [], []], step=2.0) == ([0, 2, 4], [0, 0, 0], 6)


@given(st.lists(st.lists(st.integers(1, 5 * KB), max_size=5), min_size=1, max_size=12), st.integers(1, 3),
       st.sampled_from([0.0, 0.05, 2.0]), st.integers(1, 8 * KB), st.integers(0, KB))  # fmt: skip
def test_a_run_takes_what_its_bytes_and_its_steps_take_and_at_most_both_with_all_latencies(
    groups: list[list[int]], ranks: int, latency: float, ahead: int, sums: int
) -> None:
    begins, waits, end = passed(groups, ranks=ranks, latency=latency, ahead=ahead, sums=sums, step=0.3)
    size = ranks * (sum(map(sum, groups)) + (sums if any(groups) else 0))
    steps, asked = 0.3 * len(groups), sum(map(len, groups)) + 1
    assert max(steps, size / KB) - 1e-3 <= end <= steps + size / KB + 2 * latency * asked + 1e-3
    assert (np.diff(begins) >= 0.3 - 1e-5).all() and end == pytest.approx(steps + sum(waits), abs=1e-3)
