"""Values of a table's columns as text: spelt as JSON spells them, in every format the same."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.sources.cells import Cells, is_text, spellable


def spelt(column: pa.Array) -> list[str | None]:
    strings, bad = Cells.of(column).strings()
    assert strings.type == pa.large_string() and not bad.any()
    found: list[str | None] = strings.to_pylist()
    return found


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array(["a", None, ""]), ["a", None, ""]),
        (pa.array(["é", "b"], pa.string_view()), ["é", "b"]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (pa.array([1, -5, None]), ["1", "-5", None]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([2.0, 1e16, 0.1]), ["2.0", "1e+16", "0.1"]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
        (pa.array([True, None]), ["true", None]),
        (pa.array([b"text", b"\xff\x00"], pa.binary()), ["text", "ff00"]),
        (pa.array([bytes(range(16))], pa.binary(16)), ["000102030405060708090a0b0c0d0e0f"]),
        (pa.array([[1, 2], None]), ["[1,2]", None]),
        (pa.array([{"a": "é"}]), ['{"a":"é"}']),
        (pa.array([datetime.date(2024, 2, 29)]), ["2024-02-29"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_value_is_spelt_as_json_spells_it(column: pa.Array, texts: list[str | None]) -> None:
    assert spelt(column) == texts and spellable(column.type)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none()))
def test_a_number_is_the_decimal_that_pythons_json_writes(values: list[float | None]) -> None:
    expected = [None if value is None else json.dumps(value) for value in values]
    assert spelt(pa.array(values, pa.float64())) == expected


def test_text_that_is_no_utf8_is_null_and_told_apart() -> None:
    bytes_column = pa.array([b"good", b"\xff", None])
    strings, bad = Cells.of(bytes_column.view(pa.string())).strings()
    assert strings.to_pylist() == ["good", None, None] and bad.tolist() == [False, True, False]


def test_offsets_that_leave_their_data_are_refused_before_anything_reads_them() -> None:
    data, offsets = pa.py_buffer(b"abc"), pa.py_buffer(np.array([0, 2, 1 << 20], np.int32))
    with pytest.raises(pa.ArrowInvalid):
        Cells.of(pa.Array.from_buffers(pa.string(), 2, [None, offsets, data]))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "bcd", None, ""]),
        pa.array(["a", "bcd", None, ""], pa.large_string()),
        pa.array(["a", "bcd", None, ""], pa.string_view()),
        pa.array([b"a", b"bcd", None, b""], pa.binary_view()),
        pa.array(["a", "bcd", None, ""]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_a_value_counts_its_own_bytes_however_it_is_stored(column: pa.Array) -> None:
    assert Cells.of(column).sizes().tolist() == [1, 3, 0, 0]
    assert Cells.of(column.slice(1, 2)).sizes().tolist() == [3, 0]


def test_some_of_the_values_are_taken_by_place_or_by_choice() -> None:
    cells = Cells.of(pa.array(["a", "b", "c"]))
    assert cells.slice(1, 3).values.to_pylist() == ["b", "c"]
    assert cells.take(np.array([True, False, True])).values.to_pylist() == ["a", "c"]
    assert cells.take(np.array([True] * 3)) is cells


@pytest.mark.parametrize(("kind", "text"), [(pa.string(), True), (pa.dictionary(pa.int8(), pa.large_string()), True),
                                            (pa.binary(), False), (pa.int64(), False)])  # fmt: skip
def test_what_holds_text_is_known_by_its_type(kind: Any, text: bool) -> None:
    assert is_text(kind) == text
