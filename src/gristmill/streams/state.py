"""The state of a stream: where each lane is, 12 bytes each, as text; each rank knows its own lanes, all ranks all.

Row r of the batch is lane r, and rank k of w has lanes k, k + w, ...: so states of all ranks make one of the whole, by
`merge_states`, which any number of ranks can go on from.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TypedDict, cast

import numpy as np

from gristmill.arrow.left import ArrowState, merge_arrow_states
from gristmill.core.arguments import refuse
from gristmill.core.arrays import Ints
from gristmill.core.errors import StateError
from gristmill.core.hashing import digest_of
from gristmill.core.values import Count, Positive, as_saved, shown

STATE_VERSION = 2
# What decides where a stream goes on.
_DECISIVE = ("version", "step", "stream", "rank", "world_size", "streams", "lanes")
# Parts of a stream whose names, which states keep, do not say it all.
_SPOKEN = {"files": "files or rows"}


class StreamState(TypedDict):
    """What a run must keep to go on: JSON. `lanes` are the places of the lanes of `rank` among `world_size`.

    `parts` say by name what the batches depend on, so that a state of another stream can be told what differs. `digest`
    is of all the rest: one wrong character in `lanes` would be other places, whose documents nobody could tell.
    """

    version: int
    step: Count
    stream: str
    rank: Count
    world_size: Positive
    streams: Positive
    lanes: str
    parts: Mapping[str, object]
    digest: str


def sealed(state: Mapping[str, object]) -> StreamState:
    """The state with its digest, in place of another."""
    return cast(StreamState, {**state, "digest": digest_of(state, _DECISIVE)})


def as_text(places: Ints) -> str:
    """The places of each row's lanes, three numbers of 32 bits a lane, as 15 characters a lane."""
    return base64.b85encode(np.ascontiguousarray(places, "<u4").tobytes()).decode()


def as_places(text: str, streams: int) -> Ints:
    """The inverse of `as_text`: a row of the batch a row, with a lane of each of `streams`."""
    try:
        found = np.frombuffer(base64.b85decode(text), "<u4").astype(np.int64)
        return found.reshape(-1, 3 * streams)
    except ValueError as error:
        raise StateError(f"The lanes of this state cannot be read ({error}): it is damaged.") from error


def merge_states(states: Sequence[Mapping[str, object]]) -> StreamState | ArrowState:
    """One state of the whole from those that all ranks have kept at the same step, in any order.

    The ranks are those of a stream, or of a data set of `fast_load_iterable_dataset`.
    """
    if not isinstance(states, Sequence) or not states or not all(isinstance(state, Mapping) for state in states):
        raise refuse("states", "the states of all ranks, as a list", states)
    return merge_arrow_states(states) if "left" in states[0] else _merged(states)


def _merged(states: Sequence[Mapping[str, object]]) -> StreamState:
    found = [as_stream_state(state) for state in states]
    first = found[0]
    for state in found:
        for key in ("stream", "step", "world_size", "streams"):
            if state[key] != first[key]:
                raise StateError(
                    f"These states are not of one moment: {key} is {shown(first[key])} and "
                    f"{shown(state[key])}. Keep those that all ranks saved at the same step."
                )
    world = first["world_size"]
    by_rank = {state["rank"]: as_places(state["lanes"], first["streams"]) for state in found}
    missing = next((rank for rank in range(world) if rank not in by_rank), None)
    if missing is not None:
        raise StateError(f"The lanes of rank {missing} of {world} are missing: give its state too.")
    lanes = np.empty((sum(map(len, by_rank.values())), 3 * first["streams"]), np.int64)
    for rank, places in by_rank.items():
        if len(places) != len(lanes) // world or not len(places):
            raise StateError(f"The state of rank {rank} of {world} has {len(places):,} rows: it is damaged.")
        lanes[rank::world] = places
    return sealed({**first, "rank": 0, "world_size": 1, "lanes": as_text(lanes)})


def check_stream_state(
    given: object, stream: str, parts: Mapping[str, object], rank: int, world_size: int, shape: tuple[int, int]
) -> tuple[int, Ints]:
    """Step and places of the lanes of a rank (0 of 1: all), if the state has them and is this stream's."""
    state = as_stream_state(given)
    if state["stream"] != stream:
        differ = [_SPOKEN.get(name, name) for name in {**parts, **state["parts"]}
                  if parts.get(name) != state["parts"].get(name)]  # fmt: skip
        raise StateError(
            f"This checkpoint (step {state['step']:,}) belongs to another stream: {', '.join(differ) or 'something'} "
            "differs. A stream goes on only with the files (the rows, if it is of a DataFrame), steps, tokenizer, cut, "
            "batch size and seed it began with."
        )
    if (state["rank"], state["world_size"]) != (rank, world_size):
        raise StateError(
            f"This checkpoint has the lanes of rank {state['rank']} of {state['world_size']} alone: load the states of "
            "all ranks by gm.merge_states([...])."
        )
    places = as_places(state["lanes"], shape[1] // 3)
    if (len(places), 3 * state["streams"]) != shape:
        raise StateError(f"This checkpoint has {len(places):,} rows, and the stream {shape[0]:,}: it is damaged.")
    return state["step"], places


def as_stream_state(state: object) -> StreamState:
    """The state that this must be, whatever the stream; one that was changed since it was made is refused."""
    found = cast(StreamState, as_saved(state, StreamState, STATE_VERSION, "a Gristmill stream"))
    if found["rank"] >= found["world_size"]:
        raise StateError(f"There is no rank {found['rank']} of {found['world_size']}: this state is damaged.")
    if found["digest"] != digest_of(found, _DECISIVE):
        raise StateError(
            f"This state (step {found['step']:,}) is not as it was saved, its digest is another: go on from another "
            "checkpoint."
        )
    return found
