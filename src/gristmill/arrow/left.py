"""What is left of a data set: runs of units, which any number of ranks and workers share out among themselves.

A unit is a row, or the rows that a batched function sees together; each is read once, by whoever has it in its share. A
share is a stretch of the whole, such as the third quarter, and its state the runs that are left of it. States of shares
that lie end to end make one of what they cover, and that can be cut anew:

    2 ranks of 100 units        [0, 50) [50, 100)
    after 10 and 20 units       [10, 50) and [70, 100), together 70 units
    3 ranks go on               [10, 33) · [33, 50) [70, 76) · [76, 100)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypedDict, cast

from gristmill.core.errors import StateError
from gristmill.core.hashing import digest_of
from gristmill.core.values import as_saved, shown

STATE_VERSION = 3
_DECISIVE = ("version", "data", "order", "epoch", "share", "left")


class Run(NamedTuple):
    """Units [first, stop), and how many examples of the first one have been given already."""

    first: int
    stop: int
    given: int = 0


class Share(NamedTuple):
    """The part of a data set from `low` to `high`, of 0 to 1."""

    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)

    def part(self, count: int, index: int) -> Share:
        """Part `index` of `count` equal ones."""
        width = (self.high - self.low) / count
        return Share(self.low + index * width, self.low + (index + 1) * width)

    def inside(self, other: Share) -> Share:
        """The same part, as one of `other`."""
        width = other.high - other.low
        return Share((self.low - other.low) / width, (self.high - other.low) / width)

    def covers(self, other: Share) -> bool:
        return self.low <= other.low and other.high <= self.high


def cut(runs: Sequence[Run], share: Share) -> tuple[Run, ...]:
    """A share of runs: those of shares that lie end to end do so too, and equal shares differ by one unit at most."""
    total = sum(run.stop - run.first for run in runs)
    return tuple(between(runs, int(total * share.low), int(total * share.high)))


def between(runs: Iterable[Run], low: int, high: int) -> Iterator[Run]:
    """Units number `low` to `high` of runs in a row."""
    end = 0
    for run in runs:
        begin, end = end, end + run.stop - run.first
        first, stop = max(low - begin, 0), min(high, end) - begin
        if first < stop:
            yield Run(run.first + first, run.first + stop, 0 if first else run.given)


class ArrowState(TypedDict):
    """What is left of a share of a data set, with what must be equal to go on: JSON, some 20 bytes a run.

    `digest` is of all the rest: one wrong number would be other examples, of which nobody could tell.
    """

    version: int
    data: str
    order: str
    epoch: int
    share: list[str]
    left: list[list[int]]
    digest: str


def sealed(state: Mapping[str, object]) -> ArrowState:
    """The state with its digest, in place of another."""
    return cast(ArrowState, {**state, "digest": digest_of(state, _DECISIVE)})


def share_of(state: ArrowState) -> Share:
    """The share that a state is of."""
    try:
        low, high = map(Fraction, state["share"])
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise StateError(f"The share of this state cannot be read ({error}): it is damaged.") from error
    return Share(low, high)


def runs_of(state: ArrowState) -> tuple[Run, ...]:
    """What is left of a state's share."""
    if any(len(run) != len(Run._fields) or min(run) < 0 for run in state["left"]):
        raise StateError("What is left in this state cannot be read (it has wrong numbers): it is damaged.")
    return tuple(Run(*run) for run in state["left"])


def as_arrow_state(state: object) -> ArrowState:
    """The state that this must be, whatever the data set."""
    if isinstance(state, Mapping) and state.get("version") == 1 and "workers" in state:
        raise StateError(
            "This state is of an older version, whose place was that of one worker among so many: end its epoch with "
            "that version, or begin the epoch anew with this one."
        )
    found = cast(ArrowState, as_saved(state, ArrowState, STATE_VERSION, "an ArrowIterableDataset"))
    if found["digest"] != digest_of(found, _DECISIVE):
        raise StateError("This state is not as it was saved, its digest is another: go on from another checkpoint.")
    return found


def join_states(states: Iterable[Mapping[str, object]]) -> ArrowState:
    """One state from those of shares that lie end to end, in any order."""
    found = sorted(map(as_arrow_state, states), key=share_of)
    for state, after in itertools.pairwise(found):
        for key in ("data", "order", "epoch"):
            if state.get(key) != after.get(key):
                raise StateError(
                    f"These states are not of one run: {key} is {shown(state.get(key))} and {shown(after.get(key))}."
                )
        if share_of(state).high != share_of(after).low:
            raise StateError(
                f"What lies between {share_of(state).high} and {share_of(after).low} of the data set is missing or "
                "twice there: give the state of each rank and worker, once."
            )
    left = [list(run) for state in found for run in runs_of(state)]
    return sealed({**found[0], "share": [found[0]["share"][0], found[-1]["share"][1]], "left": left})


def merge_arrow_states(states: Iterable[Mapping[str, object]]) -> ArrowState:
    """The state of the whole from those of all ranks."""
    whole = join_states(states)
    if share_of(whole) != Share():
        raise StateError(
            f"These states cover the data set from {whole['share'][0]} to {whole['share'][1]} alone: give those of all "
            "ranks."
        )
    return whole
