"""A count of buckets, and the units that it is cut into."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from gristmill.core.errors import ConfigError
from gristmill.streams.census import Census, FrameUnits, take_census
from gristmill.streams.frame_queries import BUCKET_BITS, Columns, Session

TEXTS = Columns("text", None, (), holds_ids=False, keyed=False)


class Counted:
    """A session that answers with this table of buckets."""

    def __init__(self, rows: list[tuple[int, ...]]) -> None:
        names = ["bucket", "rows", "bytes", "low", "whole"]
        columns = np.array(rows, np.int64).reshape(-1, 5).T
        self.table = pa.table(dict(zip(names, columns, strict=True)))

    def ask(self, query: Any) -> pa.Table:
        return self.table


def census(*rows: tuple[int, ...]) -> Census:
    return take_census(cast(Session, Counted(list(rows))), TEXTS)


def units(counted: Census, lanes: int) -> FrameUnits:
    return FrameUnits("data", cast(Session, None), TEXTS, counted, lanes)


def test_neighbours_are_counted_as_one_below_zero_too() -> None:
    found = census((3, 1, 10, 7, 0b110), (-1, 2, 20, 8, 5), (2, 4, 40, 9, 0b011), (-2, 1, 5, 1, 1))
    assert (found.rows, found.bytes) == (8, 75)
    assert found.coarse(1).table.tolist() == [[-1, 3, 25, 9, 4], [1, 5, 50, 16, 0b101]]


def test_units_grow_with_the_dataframe_until_there_are_as_many_as_buckets() -> None:
    rng = np.random.default_rng(0)
    for total, least, most in [(100, 1, 2), (1 << 20, 32, 256), (1 << 30, 1_000, 4_096)]:
        numbers = np.unique(rng.integers(-(1 << BUCKET_BITS - 1), 1 << BUCKET_BITS - 1, 50_000))
        each = max(total // len(numbers), 1)
        small = np.column_stack([numbers, np.ones((len(numbers), 4), np.int64) * [1, each, 1, 1]])
        counted = Census(small[: max(total // each, 1)] if each == 1 else small)
        assert least <= len(units(counted, 8)) <= most


def test_other_rows_or_another_cut_are_another_fingerprint() -> None:
    rows = [(number, 1, 1 << 16, number, number) for number in range(-200, 200)]
    first = units(census(*rows), 4).fingerprint
    assert first == units(census(*reversed(rows)), 4).fingerprint
    assert first != units(census(*rows[:-1], (199, 1, 1 << 16, 199, 198)), 4).fingerprint
    assert first != units(census(*rows), 256).fingerprint


def test_an_empty_dataframe_and_one_of_equal_keys_are_refused() -> None:
    with pytest.raises(ConfigError, match="The DataFrame is empty"):
        census()
    with pytest.raises(
        ConfigError, match="2,048 MiB of the DataFrame have nearly equal texts: name a column by id_col"
    ):
        census((0, 10, 1 << 31, 0, 0))
