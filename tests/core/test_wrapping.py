"""Python's objects arrive in a compiled entry as they are, and what it gives arrives in Python."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.memory import empty

BYTES, INTS = types.Array(types.uint8, 1, "C", readonly=True), types.int64[::1]
PAIR = types.Tuple((types.float64[:, ::1], types.Tuple((BYTES, types.int32))))
ANSWER = types.Tuple((INTS, types.float64, types.boolean))


@entry(ANSWER(BYTES, PAIR, types.uint64, types.boolean, types.float64))
def _sum(data: Any, pair: Any, large: Any, flag: bool, part: float) -> Any:
    """A number of each argument, in their order."""
    table, (more, times) = pair
    made = empty(4, np.int64)
    made[0], made[1] = data.size + data[0], table.shape[0] * 10 + table.shape[1]
    made[2], made[3] = more[-1] * times, large - np.uint64(2**63)
    return made, table[1, 2] + part, not flag


def test_numbers_arrays_and_tuples_of_them_arrive() -> None:
    table, data = np.arange(6.0).reshape(2, 3), np.frombuffer(b"abc", np.uint8)
    made, number, flag = _sum(data, (table, (data[1:], np.int32(-2))), 2**63 + 7, True, 0.25)
    assert made.tolist() == [3 + 97, 23, -2 * 99, 7]
    assert (number, flag) == (5.25, False) and made.base.refcount == 1


def test_a_call_holds_nothing_that_it_was_given() -> None:
    table, data = np.zeros((2, 3)), np.frombuffer(b"abc", np.uint8)
    before = [sys.getrefcount(one) for one in (table, data)]
    for _ in range(3):
        _sum(data, (table, (data, np.int32(1))), 2**63, False, 0.0)
    assert [sys.getrefcount(one) for one in (table, data)] == before


def test_a_number_that_does_not_fit_is_pythons_error() -> None:
    data = np.frombuffer(b"abc", np.uint8)
    with pytest.raises(OverflowError):
        _sum(data, (np.zeros((2, 3)), (data, np.int32(1))), -1, False, 0.0)


@entry(INTS(INTS))
def _same(numbers: Any) -> Any:
    return numbers


def test_an_array_that_was_given_cannot_be_given_back() -> None:
    with pytest.raises(TypeError, match="gives back a part of an array that it was given"):
        _same(np.arange(3))


@entry(types.uint64(types.int64))
def _work(turns: int) -> Any:
    number = np.uint64(turns)
    for _ in range(turns):
        number = number * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return number


def test_other_threads_run_meanwhile() -> None:
    thread, turns = threading.Thread(target=_work, args=[3 * 10**8]), 0
    thread.start()
    while thread.is_alive():
        turns += 1
    assert turns > 1_000
