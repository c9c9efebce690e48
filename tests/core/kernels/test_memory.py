"""Words of memory, and bytes copied and looked for, against slices of Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import carray, types

from gristmill.core.compiled import entry
from gristmill.core.kernels.memory import (
    common,
    copy,
    count,
    empty,
    filled,
    holds,
    int64_at,
    largest,
    longest_row,
    place_of,
    pointer,
    prefetch,
    smallest,
    trailing_zeros,
    uint64_at,
    widen_past_caches,
    written,
)
from gristmill.core.kernels.types import BYTES, INTS


@entry(types.Tuple((types.int64, types.uint64, types.uint16))(BYTES, types.int64))
def _loaded(data: Any, at: int) -> Any:
    address = data.ctypes.data + at
    prefetch(address)
    return int64_at(address), uint64_at(data, at), carray(pointer(address, np.uint16), (1,))[0]


@entry(types.int64(types.uint64))
def _zeros(number: Any) -> Any:
    return trailing_zeros(number)


@entry(types.int64(BYTES, types.int64, types.int64, types.uint8[::1], types.int64))
def _copied(data: Any, begin: int, end: int, out: Any, at: int) -> Any:
    return copy(data, begin, end, out, at)


@entry(types.Tuple((types.boolean, types.int64))(BYTES, types.uint8))
def _looked(data: Any, wanted: Any) -> Any:
    return holds(data, wanted), count(data, wanted)


_MADE = types.Tuple((types.float32[::1], types.int16[:, ::1]))


@entry(_MADE(types.int64, types.int64))
def _made(rows: int, columns: int) -> Any:
    table = empty((rows, columns), np.int16)
    for row in range(rows):
        for column in range(columns):
            table[row, column] = 10 * row + column
    return filled(rows, -2, np.float32), table


@settings(deadline=None)  # the first case compiles
@given(st.integers(0, 5), st.integers(0, 5))
def test_new_arrays_have_the_shape_and_the_kind_that_were_asked_for(rows: int, columns: int) -> None:
    values, table = _made(rows, columns)
    np.testing.assert_array_equal(values, np.full(rows, -2, np.float32), strict=True)
    expected = 10 * np.arange(rows)[:, None] + np.arange(columns)
    np.testing.assert_array_equal(table, expected.astype(np.int16), strict=True)


@settings(deadline=None)  # the first case compiles
@given(st.binary(min_size=8, max_size=24), st.data())
def test_words_are_little_endian_wherever_they_begin(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 8))
    word = data[at : at + 8]
    kept = np.frombuffer(data, np.uint8)
    expected = int.from_bytes(word, "little", signed=True), int.from_bytes(word, "little")
    assert _loaded(kept, at) == (*expected, int.from_bytes(word[:2], "little"))


def test_trailing_zeros_are_counted_and_those_of_zero_are_64() -> None:
    assert [_zeros(np.uint64(number)) for number in (0, 1, 8, 1 << 63, 12)] == [64, 0, 3, 63, 2]


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 3))
def test_a_stretch_is_copied_and_nothing_else_is_written(data: bytes, first: int, last: int, at: int) -> None:
    begin, end = sorted((min(first, len(data)), min(last, len(data))))
    out = np.full(44, 7, np.uint8)
    assert _copied(np.frombuffer(data, np.uint8), begin, end, out, at) == at + end - begin
    expected = bytes([7]) * at + data[begin:end]
    assert out.tobytes() == expected.ljust(44, bytes([7]))


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 255))
def test_values_are_found_and_counted(data: bytes, wanted: int) -> None:
    for byte in {wanted, *data[:3]}:
        assert _looked(np.frombuffer(data, np.uint8), byte) == (byte in data, data.count(byte))


@entry(types.Tuple((types.int64, types.int64))(BYTES, types.int64, BYTES))
def _found(data: Any, wanted: int, other: Any) -> Any:
    return place_of(data, wanted), common(data, 0, other, 0, min(data.size, other.size))


@settings(deadline=None)
@given(st.binary(max_size=20).map(sorted).map(bytes), st.integers(0, 255), st.binary(max_size=6))
def test_values_are_found_as_numpy_finds_them_and_equal_bytes_are_counted(
    data: bytes, wanted: int, other: bytes
) -> None:
    ours, theirs = np.frombuffer(data, np.uint8), np.frombuffer(other, np.uint8)
    equal = next((i for i, (a, b) in enumerate(zip(data, other, strict=False)) if a != b), min(len(data), len(other)))
    assert _found(ours, wanted, theirs) == (np.searchsorted(ours, wanted), equal)


@entry(types.UniTuple(types.int64, 3)(INTS))
def _extremes(values: Any) -> Any:
    return largest(values), smallest(values) if values.size else 0, longest_row(values)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1 << 40), max_size=20))
def test_extremes_are_those_of_python_and_rows_lie_between_offsets(numbers: list[int]) -> None:
    offsets = sorted(numbers)
    rows = [end - begin for begin, end in itertools.pairwise(offsets)]
    found = _extremes(np.array(offsets, np.int64))
    assert found == (max(offsets, default=0), min(offsets, default=0), max(rows, default=0))


@entry(types.void(types.int64, types.int64))
def _eight_words(address: int, to: int) -> None:
    widen_past_caches(address, to, np.uint8)
    widen_past_caches(address + 8, to + 64, np.uint16)
    widen_past_caches(address + 24, to + 128, np.uint32)
    widen_past_caches(address + 56, to + 192, np.int64)
    written()


def test_numbers_of_any_width_are_written_past_the_caches_as_words() -> None:
    data, out = np.random.default_rng(0).integers(0, 256, 121, dtype=np.uint8), np.zeros(48, np.int64)
    first = -out.ctypes.data % 64 // 8
    for at in (0, 1):
        _eight_words(data.ctypes.data + at, out.ctypes.data + 8 * first)
        parts = (data[at:][:8], data[at + 8 :][:16], data[at + 24 :][:32], data[at + 56 :][:64])
        numbers = [part.copy().view(kind).tolist() for part, kind in zip(parts, ("u1", "u2", "u4", "i8"), strict=True)]
        assert out[first : first + 32].tolist() == list(itertools.chain(*numbers))
    assert not out[:first].any() and not out[first + 32 :].any()
