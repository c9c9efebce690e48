"""States of ranks: small, merged into one of the whole, refused when something is missing or another stream's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import gristmill as gm
from gristmill.streams.state import as_places, as_text, sealed

from .conftest import Files, bytes_stream, taken

SHAPES = st.tuples(st.integers(0, 40), st.integers(1, 4).map(lambda streams: 3 * streams))


@given(places=npst.arrays(np.int64, SHAPES, elements=st.integers(0, 2**32 - 1)))
def test_a_lane_takes_fifteen_characters(places: Any) -> None:
    text, streams = as_text(places), places.shape[1] // 3
    assert len(text) == 15 * len(places) * streams and np.array_equal(as_places(text, streams), places)


def states_of(folder: Path, world: int, steps: int) -> tuple[Any, list[Any]]:
    stream = bytes_stream(folder).batch(12, seed=1)
    loaders = [stream.loader(rank, world, threads=0) for rank in range(world)]
    for loader in loaders:
        taken(loader, steps)
    return stream, [loader.state_dict() for loader in loaders]


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_states_of_all_ranks_make_the_state_of_one(files: Files, world: int) -> None:
    folder = files()
    alone = states_of(folder, 1, 5)[1][0]
    assert gm.merge_states(states_of(folder, world, 5)[1][::-1]) == alone
    assert json.loads(json.dumps(alone)) == alone


def test_a_state_with_lanes_missing_is_refused(files: Files) -> None:
    stream, states = states_of(files(), 3, 2)
    with pytest.raises(gm.StateError, match="rank 1 of 3"):
        gm.merge_states([states[0], states[2]])
    with pytest.raises(gm.StateError, match="merge_states"):
        stream.loader().load_state_dict(states[0])


def test_states_of_other_moments_are_not_merged(files: Files) -> None:
    folder = files()
    with pytest.raises(gm.StateError, match="step is 2 and 3"):
        gm.merge_states([states_of(folder, 2, 2)[1][0], states_of(folder, 2, 3)[1][1]])


def test_a_state_of_another_stream_is_told_what_differs(files: Files) -> None:
    folder = files()
    state = states_of(folder, 1, 2)[1][0]
    for other, named in [
        (bytes_stream(folder).batch(12, seed=2), "seed"),
        (bytes_stream(folder, "pack").batch(12, seed=1), "cut"),
        (bytes_stream(folder).batch(24, seed=1), "batch_size"),
        (
            gm.stream(f"{folder}/*.jsonl").filter("length", min_chars=3).tokenize("byte").chunk(32).batch(12, seed=1),
            "steps",
        ),
        (bytes_stream(files(folder="more", rows=7)).batch(12, seed=1), "files"),
    ]:
        with pytest.raises(gm.StateError, match=rf"another stream: .*{named}"):
            other.loader().load_state_dict(state)


DAMAGES: list[dict[str, Any]] = [
    {"version": 3}, {"version": np.arange(2)}, {"version": None}, {"lanes": "x"}, {"lanes": "0" * 15}, {"lanes": ""},
    {"lanes": None}, {"lanes": "\ud800"}, {"streams": 2}, {"streams": 0}, {"streams": -1}, {"streams": 2**60},
    {"step": "3"}, {"step": -5}, {"step": 4}, {"step": np.arange(2)}, {"world_size": 0}, {"world_size": -1},
    {"world_size": 2**31}, {"world_size": 2**31, "rank": 2**31 - 1}, {"rank": 1}, {"rank": -1}, {"rank": True},
    {"digest": "0" * 8}, {"digest": 5}, {"parts": []},
]  # fmt: skip


@pytest.mark.parametrize("change", DAMAGES, ids=str)
def test_a_damaged_state_is_an_error_of_its_own(files: Files, change: dict[str, Any]) -> None:
    stream, (state,) = states_of(files(), 1, 2)
    damaged = {**state, **change}
    for take in (stream.loader().load_state_dict, lambda each: gm.merge_states([each])):
        with pytest.raises(gm.StateError):
            take(damaged)
    if not {"digest", "step"} & change.keys():  # one that somebody has made, who knows how
        with pytest.raises(gm.StateError):
            stream.loader().load_state_dict(sealed(damaged))


def test_what_is_no_state_is_an_error_of_its_own(files: Files) -> None:
    stream, _ = states_of(files(), 1, 2)
    for other in ({}, [], None, {"step": 3}):
        with pytest.raises(gm.GristmillError):
            stream.loader().load_state_dict(other)


def test_a_state_of_which_one_character_was_changed_is_refused(files: Files) -> None:
    stream, (state,) = states_of(files(), 1, 5)
    for i in range(0, len(state["lanes"]), 7):
        other = "0" if state["lanes"][i] != "0" else "1"
        changed = {**state, "lanes": state["lanes"][:i] + other + state["lanes"][i + 1 :]}
        for take in (stream.loader().load_state_dict, stream.loader().restore, lambda each: gm.merge_states([each])):
            with pytest.raises(gm.StateError, match="is not as it was saved"):
                take(changed)


def test_a_state_from_before_digests_is_told_its_version(files: Files) -> None:
    stream, (state,) = states_of(files(), 1, 2)
    old = {key: value for key, value in {**state, "version": 1}.items() if key != "digest"}
    with pytest.raises(gm.StateError, match="version 1; this software reads 2"):
        stream.loader().load_state_dict(old)


@pytest.mark.parametrize("cut", [0, 15, 45])
def test_states_of_ranks_that_lack_rows_are_not_merged(files: Files, cut: int) -> None:
    states = states_of(files(), 2, 2)[1]
    for rank in range(2):
        short = list(states)
        short[rank] = sealed({**states[rank], "lanes": states[rank]["lanes"][:cut]})
        with pytest.raises(gm.StateError, match="it is damaged"):
            gm.merge_states(short)


@pytest.mark.parametrize("states", [[], None, 3, "abc"])
def test_what_is_no_list_of_states_is_refused(states: Any) -> None:
    with pytest.raises(gm.GristmillError):
        gm.merge_states(states)
