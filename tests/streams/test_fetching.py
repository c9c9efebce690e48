"""Units that are fetched ahead: one query for many lanes, and never more than two turns of each."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from gristmill.core.errors import SourceError
from gristmill.sources.base import Mishaps
from gristmill.streams import fetching
from gristmill.streams.fetching import Fetcher, documents_of
from gristmill.streams.frame_queries import Columns

TEXTS = Columns("text", "id", (), holds_ids=False, keyed=False)


class Queries:
    """Answers queries by tables that hold a unit's number, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.answered = threading.Semaphore(0)

    def __call__(self, units: Sequence[int]) -> dict[int, pa.Table]:
        self.asked.append(list(units))
        self.answered.release()
        return {unit: pa.table({"unit": [unit]}) for unit in units}


def numbers(tables: list[pa.Table]) -> list[int]:
    return [table.column("unit")[0].as_py() for table in tables]


def test_the_first_turns_of_all_lanes_are_one_query_and_the_next_ones_another() -> None:
    queries = Queries()
    fetcher = Fetcher(queries, np.ones(8, np.int64))
    fetcher.begin({(lane, 0): [lane] for lane in range(4)})
    for lane in range(4):
        assert numbers(fetcher.take((lane, 0), [lane])) == [lane]
    for lane in range(2):
        fetcher.expect((lane, 1), [4 + lane])
    assert all(queries.answered.acquire(timeout=300) for _ in range(2))  # half of the lanes want their next turn
    assert queries.asked == [[0, 1, 2, 3], [4, 5]]


def test_a_lane_that_has_to_wait_brings_what_others_want_along() -> None:
    queries = Queries()
    fetcher = Fetcher(queries, np.ones(20, np.int64))
    fetcher.begin({(lane, 0): [lane] for lane in range(8)})
    assert numbers(fetcher.take((0, 0), [0])) == [0]
    fetcher.expect((0, 1), [9])
    assert numbers(fetcher.take((3, 1), [12])) == [12]
    assert queries.asked[1] == [9, 12]
    assert numbers(fetcher.take((0, 1), [9])) == [9] and len(queries.asked) == 2


def test_a_query_is_for_so_many_bytes_but_a_turn_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_QUERY_BYTES", 100)
    queries = Queries()
    fetcher = Fetcher(queries, np.array([60, 60, 500, 30, 30]))
    fetcher.begin({(0, 0): [0], (1, 0): [1], (2, 0): [2], (3, 0): [3, 4]})
    assert numbers(fetcher.take((3, 0), [3, 4])) == [3, 4]
    assert queries.asked == [[0], [1], [2], [3, 4]]


def test_lanes_that_want_one_unit_ask_for_it_once() -> None:
    queries = Queries()
    fetcher = Fetcher(queries, np.ones(1, np.int64))
    fetcher.begin({(0, 0): [0], (1, 0): [0]})
    assert numbers(fetcher.take((0, 0), [0])) == numbers(fetcher.take((1, 0), [0])) == [0]
    assert queries.asked == [[0]]


def test_an_error_of_a_query_comes_to_each_lane_that_waits_for_it() -> None:
    def fail(units: Sequence[int]) -> dict[int, pa.Table]:
        raise SourceError("The rows are gone.")

    fetcher = Fetcher(fail, np.ones(2, np.int64))
    fetcher.begin({(0, 0): [0], (1, 0): [1]})
    for lane in range(2):
        with pytest.raises(SourceError, match="rows are gone"):
            fetcher.take((lane, 0), [lane])


def test_rows_become_documents_and_those_without_a_text_are_mishaps() -> None:
    table = pa.table({"key": [5, -1, 7], "text": ["a", None, "c"], "id": ["x", "y", None]})
    mishaps = Mishaps("skip")
    batch = documents_of(table, "web", TEXTS, mishaps)
    assert batch.column("id").to_pylist() == ["x", "web/0000000000000007"]
    assert batch.column("text").to_pylist() == ["a", "c"] and batch.column("row").to_pylist() == [0, 2]
    assert mishaps.skipped == 1 and "The row 'y'" in mishaps.examples[0]
    with pytest.raises(SourceError, match="no text under 'text' but null"):
        documents_of(table, "web", TEXTS, Mishaps())


def test_lists_with_null_in_them_are_refused() -> None:
    table = pa.table({"key": [5], "text": pa.array([[1, None]], pa.list_(pa.int32()))})
    with pytest.raises(SourceError, match="null in them"):
        documents_of(table, "web", Columns("text", None, (), holds_ids=True, keyed=False), Mishaps())
