"""Turns of files that are elsewhere: read before lanes ask, a block ahead of each, and told as if they were not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pyarrow as pa
import pytest

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps
from gristmill.streams.readahead import ReadAhead
from gristmill.streams.turns import END, First, Place, Read

FILE: Any = InputFile("data", "s3://bucket/file", "file")  # type: ignore[arg-type]


class Reader:
    """Turns of three blocks, before each of which it meets one thing that cannot be read; it notes what it reads."""

    def __init__(self, last_known: bool = True) -> None:
        self.read: list[tuple[Place, int]] = []
        self.going_on, self._last_known = threading.Event(), last_known
        self.going_on.set()

    def begin(self, first: Mapping[Place, First]) -> None:
        raise AssertionError("nobody tells it")

    def turn(self, place: Place, units: Sequence[int], after: Sequence[int]) -> _Turn:
        return _Turn(self, place)

    def close(self) -> None:
        pass


class _Turn:
    def __init__(self, reader: Reader, place: Place) -> None:
        self._reader, self._place = reader, place

    def blocks(self, name: int, mishaps: Mishaps) -> Iterator[Read]:
        for number in range(name, 3):
            assert self._reader.going_on.wait(60)
            self._reader.read.append((self._place, number))
            if self._place[0] == 9:
                raise SourceError("It is damaged.", "Fetch it again.")
            mishaps.report(SourceError(f"No {number}."), FILE, str(number))
            last = number == 2 and self._reader._last_known
            yield Read(number, pa.record_batch({"text": [str(number)]}), END if last else None)
        mishaps.report(SourceError("At the end."), FILE, "end")


def come(reader: Reader, wanted: set[tuple[Place, int]]) -> None:
    """Wait until all of it has been read."""
    for _ in range(6000):
        if wanted <= set(reader.read):
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"{wanted} was not read, but {reader.read}")


@pytest.mark.parametrize("last_known", [True, False])
def test_a_block_of_each_lane_is_read_ahead_and_behind_a_turn_the_next_one(last_known: bool) -> None:
    reader = Reader(last_known)
    ahead = ReadAhead(reader, "skip")
    ahead.begin({(lane, 4): First([lane], 1) for lane in range(3)})
    come(reader, {((lane, 4), 1) for lane in range(3)})
    assert len(reader.read) == 3
    mishaps = Mishaps("skip")
    blocks = ahead.turn((1, 4), [1], [7]).blocks(1, mishaps)
    assert next(blocks).name == 1 and mishaps.examples == ["No 1."]
    come(reader, {((1, 4), 2)})
    assert len(reader.read) == 4 and mishaps.examples == ["No 1."]
    assert next(blocks).name == 2 and mishaps.examples == ["No 1.", "No 2."]
    come(reader, {((1, 5), 0)})
    assert next(blocks, None) is None and mishaps.skipped == 3
    after = list(ahead.turn((1, 5), [7], []).blocks(0, mishaps))
    assert [each.name for each in after] == [0, 1, 2] and mishaps.skipped == 7
    assert reader.read.count(((1, 5), 0)) == 1


def test_a_lane_that_begins_elsewhere_than_was_expected_reads_what_it_asks_for() -> None:
    reader = Reader()
    ahead = ReadAhead(reader, "skip")
    ahead.begin({(0, 0): First([0], 0)})
    assert [each.name for each in ahead.turn((0, 3), [5], []).blocks(2, Mishaps("skip"))] == [2]
    assert ((0, 3), 2) in reader.read


def test_a_lane_that_goes_on_elsewhere_leaves_nothing_behind() -> None:
    reader = Reader()
    ahead = ReadAhead(reader, "skip")
    blocks = ahead.turn((0, 0), [0], [1]).blocks(2, Mishaps("skip"))
    assert next(blocks).after == END and list(ahead._expected) == [0]
    blocks.close()  # type: ignore[attr-defined]  # as when nobody holds it any more
    assert not ahead._expected


def test_an_error_is_raised_where_its_block_is_asked_for_and_nobody_waits_for_what_others_need() -> None:
    reader = Reader()
    ahead = ReadAhead(reader, "raise")
    ahead.begin({(9, 0): First([0], 0)})
    come(reader, {((9, 0), 0)})
    with pytest.raises(SourceError, match="damaged"):
        next(ahead.turn((9, 0), [0], []).blocks(0, Mishaps()))


def test_what_no_thread_has_come_to_is_read_by_who_needs_it() -> None:
    reader = Reader()
    reader.going_on.clear()
    ahead = ReadAhead(reader, "skip")
    ahead.begin({(lane, 0): First([lane], 0) for lane in range(10, 80)})
    blocks = ahead.turn((79, 0), [79], []).blocks(0, Mishaps("skip"))
    threading.Timer(0.2, reader.going_on.set).start()
    assert next(blocks).name == 0


def test_a_reader_that_is_closed_begins_nothing_more_and_lets_nobody_wait() -> None:
    reader = Reader()
    reader.going_on.clear()
    ahead = ReadAhead(reader, "skip")
    ahead.begin({(lane, 0): First([lane], 0) for lane in range(10, 80)})
    readings = [ahead.take((lane, 0), [lane], 0) for lane in range(10, 80)]
    ahead.close()
    reader.going_on.set()
    told = []
    for reading in readings:
        try:
            told.append(reading._coming.result(60))
        except CancelledError:
            continue
    assert len(told) == len(reader.read) <= 16
