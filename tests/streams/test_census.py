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
    rows = [(3, 1, 10, 7, 0b110), (-1, 2, 20, 8, 5), (2, 4, 40, 9, 0b011), (-2, 1, 5, 1, 1)]
    found, fine = census(*rows), Census(np.array(sorted(rows)))
    assert (found.rows, found.bytes) == (fine.rows, fine.bytes) == (8, 75)
    assert fine.coarse(1).table.tolist() == [[-1, 3, 25, 9, 4], [1, 5, 50, 16, 0b101]]
    assert found.table.tolist() == [[-1, 3, 25, 9, 4], [0, 5, 50, 16, 0b101]]  # no unit would be smaller


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


@pytest.mark.parametrize("each", [0, 1, 700, 1 << 16])
@pytest.mark.parametrize("rows", [1, 50, 50_000])
def test_what_is_kept_of_a_count_is_little_and_gives_the_same_units(rows: int, each: int) -> None:
    rng = np.random.default_rng(0)
    numbers = np.unique(rng.integers(-(1 << BUCKET_BITS - 1), 1 << BUCKET_BITS - 1, rows))
    fine = Census(np.column_stack([numbers, np.ones_like(numbers), np.full_like(numbers, each), numbers, numbers]))
    kept = census(*map(tuple, fine.table.tolist()))
    assert len(kept.table) <= max(fine.bytes >> 11, 2)
    for lanes in (1, 16, 1_000, 100_000):
        assert units(kept, lanes).fingerprint == units(fine, lanes).fingerprint
