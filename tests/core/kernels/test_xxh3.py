"""The compiled xxh3-64 is that of the xxhash package, and tells where a sum differs."""

from __future__ import annotations

import numpy as np
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.kernels.xxh3 import LONGEST_SHORT, first_other_block, first_other_sum

DATA = np.random.default_rng(0).integers(0, 256, 20_000, dtype=np.uint8)
SPANS = st.tuples(st.integers(0, 99), st.integers(LONGEST_SHORT + 1, 5000))
EDGES = [n + by for n in (*range(256, 5120, 64), 8192, 16_384) for by in (-1, 0, 1)]


def sums_of(spans: list[tuple[int, int]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array([xxhash.xxh3_64_intdigest(DATA[at : at + size].tobytes()) for at, size in spans], np.uint64)


def first_other(spans: list[tuple[int, int]], sums: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> int:
    at, sizes = np.array(spans, np.int64).T.copy()
    found: int = first_other_sum(DATA.ctypes.data + at, sizes, sums.ctypes.data + 8 * np.arange(len(sums)))
    return found


def test_sums_are_those_of_the_package_around_every_edge_of_stripes_and_of_their_blocks() -> None:
    spans = [(at, size) for at in (0, 1, 8) for size in (*range(LONGEST_SHORT + 1, 400), *EDGES)]
    assert first_other(spans, sums_of(spans)) == -1


@settings(deadline=None)  # the first case loads Numba
@given(st.lists(SPANS, min_size=1, max_size=8), st.data())
def test_the_first_sum_that_differs_is_found_for_every_length_and_place(
    spans: list[tuple[int, int]], data: st.DataObject
) -> None:
    sums = sums_of(spans)
    assert first_other(spans, sums) == -1
    others = data.draw(st.sets(st.integers(0, len(spans) - 1), min_size=1))
    for i in others:
        sums[i] ^= np.uint64(1 << data.draw(st.integers(0, 63)))
    assert first_other(spans, sums) == min(others)


@settings(deadline=None)
@given(st.integers(LONGEST_SHORT + 1, 5000), st.data())
def test_a_flip_of_any_bit_changes_the_sum(size: int, data: st.DataObject) -> None:
    sums, at = sums_of([(0, size)]), data.draw(st.integers(0, size - 1))
    DATA[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        assert first_other([(0, size)], sums) == 0
    finally:
        DATA[:] = np.random.default_rng(0).integers(0, 256, 20_000, dtype=np.uint8)


def test_what_has_240_bytes_or_less_is_passed_over() -> None:
    spans = [(0, 0), (5, 1), (0, LONGEST_SHORT), (0, LONGEST_SHORT + 1)]
    sums = np.zeros(4, np.uint64)
    assert first_other(spans[:3], sums[:3]) == -1
    assert first_other(spans, sums) == 3


@settings(deadline=None)
@given(st.integers(0, 70), st.integers(0, 12_000), st.sampled_from([256, 1024, 4096]), st.data())
def test_consecutive_blocks_are_checked_and_copied_in_one_pass(
    first: int, size: int, block: int, data: st.DataObject
) -> None:
    spans = [(first + at, min(block, size - at)) for at in range(0, size, block)]
    sums, memory = sums_of(spans), np.zeros(size + 192, dtype=np.uint8)
    begin = -memory.ctypes.data % 64
    places = DATA.ctypes.data + first, size, block, sums.ctypes.data
    assert first_other_block(*places, memory.ctypes.data + begin) == first_other_block(*places, 0) == -1
    assert (memory[begin : begin + size] == DATA[first : first + size]).all()
    assert not memory[:begin].any() and not memory[begin + size :].any()
    if long := [i for i, (_, length) in enumerate(spans) if length > LONGEST_SHORT]:
        other = data.draw(st.sampled_from(long))
        sums[other] ^= np.uint64(1)
        assert first_other_block(*places, memory.ctypes.data + begin) == first_other_block(*places, 0) == other
