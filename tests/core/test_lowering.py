"""Compiled functions do what Python does: ranges, indices, arrays that come and go, exceptions."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from gristmill.core.compiled import compiled, entry, maker
from gristmill.core.kernels.memory import empty

INTS = types.int64[::1]


@entry(types.int64(types.int64, types.int64, types.int64, INTS))
def _walk(start: int, stop: int, step: int, seen: Any) -> Any:
    """The numbers of three ranges, one inside of the other, and how many they are."""
    count = 0
    for i in range(start, stop, step):
        for j in range(i, stop):
            for k in range(j - i):
                if count < seen.size:
                    seen[count] = 100 * i + 10 * j + k
                count += 1
    return count


@given(st.integers(-6, 6), st.integers(-6, 6), st.sampled_from([-3, -1, 1, 2, 5]))
def test_ranges_are_pythons(start: int, stop: int, step: int) -> None:
    seen = np.zeros(2_000, np.int64)
    numbers = [100 * i + 10 * j + k for i in range(start, stop, step) for j in range(i, stop) for k in range(j - i)]
    assert seen[: _walk(start, stop, step, seen)].tolist() == numbers


def test_a_range_without_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be zero"):
        _walk(0, 1, 0, np.zeros(1, np.int64))


@entry(types.float64(types.boolean[:, ::1], types.uint8[::1], types.float64[:, :, ::1], types.int32))
def _move(flags: Any, small: Any, large: Any, at: int) -> Any:
    """Elements of arrays of each kind, by numbers of each kind."""
    flags[at, 1] = small[np.uint8(at)] > 3
    small[-1] = small[0] + 250
    large[at, 0, at] = small[-1] + flags[at, 1]
    return large[at, 0, at] + small.size + large.shape[1]


def test_elements_are_found_in_arrays_of_each_kind() -> None:
    flags, small, large = np.zeros((2, 2), np.bool_), np.array([7, 4, 9], np.uint8), np.zeros((2, 3, 2))
    assert _move(flags, small, large, 1) == 1 + 1 + 3 + 3
    assert flags.tolist() == [[False, False], [False, True]]
    assert small.tolist() == [7, 4, 1] and large.ravel().tolist() == [0.0] * 7 + [2.0] + [0.0] * 4


@maker
def _either(first: Any, second: Any, other: bool) -> Any:
    chosen = first
    if other:
        chosen = second
    return chosen, empty(3, np.int64)


@entry(types.UniTuple(INTS, 3)(INTS, types.int64))
def _keep(numbers: Any, turns: int) -> Any:
    first, second = empty(3, np.int64), empty(3, np.int64)
    for i in range(3):
        first[i], second[i] = numbers[i], numbers[i + 3]
    kept, made = first, second
    for i in range(turns):
        kept, made = _either(first, second, i % 2 == 1)
        made[0] = i
    return kept, made, kept


@pytest.mark.parametrize("turns", [0, 1, 2, 7])
def test_arrays_are_let_go_once_nobody_holds_them(turns: int) -> None:
    numbers = np.arange(6)
    held = weakref.ref(numbers)
    kept, made, again = _keep(numbers, turns)
    assert kept.tolist() == again.tolist() == ([3, 4, 5] if turns > 0 and turns % 2 == 0 else [0, 1, 2])
    assert made[0] == (turns - 1 if turns else 3)
    assert (kept.base.refcount, made.base.refcount) == (2, 1)
    del numbers
    assert held() is None


@compiled
def _share(number: int, of: int) -> Any:
    return number // of


@entry(types.int64(INTS, types.int64))
def _shares(numbers: Any, of: int) -> Any:
    made = empty(numbers.size, np.int64)
    for i in range(numbers.size):
        made[i] = _share(numbers[i], of)
    return made[0]


def test_an_exception_passes_through_the_functions_that_call() -> None:
    numbers = np.array([7, 8])
    held = weakref.ref(numbers)
    assert _shares(numbers, 2) == 3
    with pytest.raises(ZeroDivisionError):
        _shares(numbers, 0)
    del numbers
    assert held() is None
