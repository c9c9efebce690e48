"""Extents are where the plan's blocks are, hold what they must, and what touches is one request."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.store.blocks import BLOCK
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.grid import Grid, make_grid, runs


def grid_of(tokens: list[int], block: int, itemsize: int = 2, kinds: str | None = None) -> Grid:
    """A store of shards of these sizes, fetched (f), compressed (c) or mapped (m) each."""
    marks = np.array(list(kinds or "f" * len(tokens)))
    starts = np.append(0, np.cumsum(tokens)).astype(np.int64)
    sizes, firsts = np.full(len(tokens), itemsize), np.array([0, len(tokens)])
    return make_grid(starts, sizes, firsts, fetched=marks == "f", compressed=marks == "c", tokens=(block,))


def touched(grid: Grid, *pieces: tuple[int, int]) -> list[tuple[int, int]]:
    positions, lengths = (np.array(column) for column in zip(*pieces, strict=True))
    shards, places = grid.placed(grid.touched(positions, lengths))
    return list(zip(shards.tolist(), places.tolist(), strict=True))


def test_extents_are_the_blocks_of_the_stream_cut_at_the_edges_of_shards() -> None:
    grid = grid_of([30_000, 50_000], block=13_000)
    shards, places = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2, 3])
    first, end = grid.tokens(shards, places)
    stream = grid.starts[shards]
    assert (first + stream).tolist() == [0, 13_000, 26_000, 30_000, 39_000, 52_000, 65_000]
    assert (end + stream).tolist() == [13_000, 26_000, 30_000, 39_000, 52_000, 65_000, 78_000]


def test_the_token_after_a_block_costs_no_other_block() -> None:
    grid = grid_of([100_000], block=20_480)
    assert touched(grid, (20_480 - 2048, 2049)) == [(0, 0)]
    assert touched(grid, (20_480, 2049)) == [(0, 1)]
    assert touched(grid, (20_479, 2)) == [(0, 0)] and touched(grid, (20_480, 1)) == [(0, 1)]


def test_the_first_token_of_a_shard_is_never_taken_from_the_one_before() -> None:
    grid = grid_of([5000, 5000], block=1000)
    assert touched(grid, (4000, 1001)) == [(0, 4), (1, 0)]


def test_mapped_shards_are_whole_and_frames_stay_on_the_grid_of_their_file() -> None:
    grid = grid_of([1000, 150_000, 90_000], block=700, kinds="mcf")
    assert touched(grid, (5, 10), (1000 + FRAME_TOKENS, 1)) == [(0, 0), (1, 1)]
    assert touched(grid, (1000 + FRAME_TOKENS - 2, 3)) == [(1, 0), (1, 1)]
    first, end = grid.held(np.array([1]), np.array([2]))
    assert (int(first[0]), int(end[0])) == (2 * FRAME_TOKENS, 150_000)


def test_extents_come_in_the_order_in_which_pieces_need_them() -> None:
    grid = grid_of([50_000], block=10_000)
    numbers = grid.in_order_of_use(np.array([45_000, 100, 41_000, 9_500]), np.array([10, 10, 10, 1000]))
    shards, places = grid.placed(numbers)
    assert places.tolist() == [4, 0, 1] and not shards.any()


def test_neighbours_are_one_request_up_to_its_bound() -> None:
    shards = np.array([0, 0, 0, 1, 1, 1])
    starts, ends = np.array([0, 4, 20, 8, 12, 16]), np.array([8, 8, 24, 12, 16, 30])
    assert runs(shards, starts, ends, most=12) == [slice(0, 2), slice(2, 3), slice(3, 5), slice(5, 6)]


@given(
    st.lists(st.integers(0, 9000), min_size=1, max_size=6).filter(any),
    st.integers(1, 12_000),
    st.sampled_from([1, 2, 4]),
    st.data(),
)
def test_whatever_a_piece_reads_is_held_and_begins_and_ends_with_a_summed_block(
    tokens: list[int], block: int, itemsize: int, data: st.DataObject
) -> None:
    grid, total = grid_of(tokens, block, itemsize), sum(tokens)
    first = data.draw(st.integers(0, total - 1))
    length = data.draw(st.integers(1, total - first))
    shards, places = grid.placed(grid.touched(np.array([first]), np.array([length])))
    (start, end), (low, high) = grid.held(shards, places), grid.byte_ranges(shards, places)
    held = np.zeros(total, np.bool_)
    for shift, a, b in zip(grid.starts[shards], start, end, strict=True):
        held[shift + a : shift + b] = True
    assert held[first : first + length].all()
    sizes = np.diff(grid.starts)[shards] * itemsize
    assert not (low % BLOCK).any() and ((high % BLOCK == 0) | (high == sizes)).all()
    inner = grid.tokens(shards, places)
    assert ((end - start) * itemsize <= (inner[1] - inner[0] + 1) * itemsize + 2 * BLOCK).all()
    assert (high - low).max() <= grid.most_bytes(np.ones(len(tokens), dtype=np.bool_)) <= block * itemsize + 2 * BLOCK


def test_extents_are_counted_through_all_shards_piece_by_piece() -> None:
    grid = grid_of([30_000, 50_000], block=13_000)
    which, numbers = grid.numbers(np.array([0, 25_000, 79_000]), np.array([10, 20_000, 10]))
    assert which.tolist() == [0, 1, 1, 1, 1, 2]
    assert numbers.tolist() == [0, 1, 2, 3, 4, 7]
    shards, places = grid.placed(numbers)
    assert shards.tolist() == [0, 0, 0, 1, 1, 1] and places.tolist() == [0, 1, 2, 0, 1, 4]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(1, 9)), max_size=20), st.integers(1, 20))
def test_a_request_holds_all_of_its_ranges_whatever_their_order(ranges: list[tuple[int, int, int]], most: int) -> None:
    shards, starts, sizes = (
        (np.array(column, dtype=np.int64) for column in zip(*ranges, strict=True))
        if ranges
        else (np.empty(0, np.int64),) * 3
    )
    ends, covered = starts + sizes, []
    for run in runs(shards, starts, ends, most):
        first, end = starts[run][0], ends[run][-1]
        assert len(set(shards[run])) == 1 and (starts[run] >= first).all() and (ends[run] <= end).all()
        assert end - first <= most or run.stop - run.start == 1
        assert (
            len(np.unique(np.concatenate([np.arange(*pair) for pair in zip(starts[run], ends[run], strict=True)])))
            == end - first
        )
        covered += range(run.start, run.stop)
    assert covered == list(range(len(ranges)))
