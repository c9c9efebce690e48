"""Ends of lines against `bytes.find` and `str.splitlines`."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.lines import break_size, line_end
from gristmill.core.kernels.types import BYTES

# What ends lines in some language, and its neighbours.
TEXT = st.text(st.sampled_from("a\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f \x84\x85\x86\u2027\u2028\u2029\u202aé漢😀"))


@entry(types.int64(BYTES, types.int64, types.int64))
def _line_end(data: Any, at: int, end: int) -> Any:
    return line_end(data, at, end)


@entry(types.int64(BYTES, types.int64[::1]))
def _breaks(data: Any, ends: Any) -> Any:
    at = count = 0
    while at < data.size:
        size = break_size(data, at, data.size)
        at += max(size, 1)
        if size or at == data.size:
            ends[count] = at
            count += 1
    return count


@settings(deadline=None)  # the first case compiles
@given(TEXT, st.integers(0, 5), st.integers(0, 5))
def test_a_line_ends_at_the_first_line_feed(text: str, begin: int, left: int) -> None:
    data = text.encode()
    end = max(len(data) - left, 0)
    found = data.find(b"\n", begin, end)
    assert _line_end(np.frombuffer(data, np.uint8), begin, end) == (max(begin, end) if found < 0 else found)


@settings(deadline=None)
@given(TEXT)
def test_breaks_are_where_str_splitlines_cuts(text: str) -> None:
    data = text.encode()
    ends = np.empty(len(data), np.int64)
    count = _breaks(np.frombuffer(data, np.uint8), ends)
    lines = text.splitlines(keepends=True)
    assert ends[:count].tolist() == np.cumsum([len(line.encode()) for line in lines], dtype=np.int64).tolist()
