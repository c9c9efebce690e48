"""What is left of a data set, shared out and joined: nothing is lost or twice there, whatever the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill as gm
from gristmill.arrow.left import (
    STATE_VERSION,
    ArrowState,
    Run,
    Share,
    cut,
    join_states,
    merge_arrow_states,
    runs_of,
    sealed,
    share_of,
)
from gristmill.core.errors import StateError


def units(runs: Any) -> list[int]:
    return [unit for run in runs for unit in range(run.first, run.stop)]


def state(share: Share, runs: Any) -> ArrowState:
    left = [list(run) for run in runs]
    return sealed({
        "version": STATE_VERSION, "data": "d", "order": "", "epoch": 0, "share": [str(share.low), str(share.high)],
        "left": left,
    })  # fmt: skip


@given(st.integers(0, 200), st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=5), st.randoms())
def test_any_numbers_of_ranks_and_workers_in_turn_read_every_unit_once(
    count: int, numbers: list[tuple[int, int]], random: Any
) -> None:
    whole, read = state(Share(), [Run(0, count)] if count else []), []
    for ranks, workers in [*numbers, (1, 1)]:
        kept = []
        for share in (Share().part(ranks, r).part(workers, w) for r in range(ranks) for w in range(workers)):
            runs = cut(runs_of(whole), share.inside(share_of(whole)))
            done = random.randint(0, len(units(runs))) if (ranks, workers) != (1, 1) else len(units(runs))
            read += units(runs)[:done]
            left = [Run(unit, unit + 1) for unit in units(runs)[done:]]
            kept.append(state(share, left))
        random.shuffle(kept)
        whole = merge_arrow_states(kept)
    assert sorted(read) == list(range(count)) and not whole["left"]


@given(st.lists(st.integers(1, 30), max_size=6), st.integers(1, 12))
def test_equal_shares_differ_by_one_unit_at_most_and_lie_end_to_end(lengths: list[int], count: int) -> None:
    runs = [Run(100 * i, 100 * i + length) for i, length in enumerate(lengths)]
    parts = [cut(runs, Share().part(count, index)) for index in range(count)]
    assert [unit for part in parts for unit in units(part)] == units(runs)
    sizes = [len(units(part)) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_what_was_given_of_a_unit_stays_with_it() -> None:
    assert cut([Run(3, 5, 7), Run(8, 9, 2)], Share()) == (Run(3, 5, 7), Run(8, 9, 2))
    assert [cut([Run(3, 5, 7), Run(8, 9, 2)], Share().part(3, i)) for i in range(3)] == [
        (Run(3, 4, 7),), (Run(4, 5),), (Run(8, 9, 2),)
    ]  # fmt: skip


def test_states_of_some_workers_join_to_what_they_cover_and_a_whole_needs_all() -> None:
    shares = [Share().part(4, index) for index in range(4)]
    joined = join_states([state(shares[1], []), state(shares[0], [Run(2, 4)])])
    assert (joined["share"], joined["left"]) == (["0", "1/2"], [[2, 4, 0]])
    with pytest.raises(StateError, match="from 0 to 1/2 alone: give those of all ranks"):
        gm.merge_states([joined])
    with pytest.raises(StateError, match=r"between 1/4 and 1/2 .*missing"):
        gm.merge_states([state(shares[0], []), state(shares[2], []), state(shares[3], [])])
    with pytest.raises(StateError, match="twice"):
        gm.merge_states([state(Share(), []), state(Share(), [])])
    with pytest.raises(StateError, match="not of one run: epoch is 0 and 1"):
        gm.merge_states([state(Share().part(2, 0), []), sealed({**state(Share().part(2, 1), []), "epoch": 1})])


@pytest.mark.parametrize("damage", [{"share": ["0", "x"]}, {"share": ["0"]}, {"share": ["1/0", "1"]}, {"left": [[1]]},
                                    {"left": [[1, 2, 3, 4]]}, {"left": [[-1, 2, 0]]}])  # fmt: skip
def test_a_damaged_state_is_told(damage: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="damaged"):
        gm.merge_states([sealed({**state(Share(), [Run(0, 3)]), **damage})])


@pytest.mark.parametrize("key", ["data", "order", "epoch", "share", "left", "digest"])
def test_a_state_that_is_not_as_it_was_saved_is_told(key: str) -> None:
    kept = state(Share(), [Run(0, 3)])
    changed = {"data": "e", "order": "map", "epoch": 1, "share": ["0", "1/2"], "left": [[1, 3, 0]], "digest": "0" * 8}
    with pytest.raises(StateError, match="not as it was saved"):
        gm.merge_states([{**kept, key: changed[key]}])
