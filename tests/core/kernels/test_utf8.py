"""Characters of UTF-8 against Python's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.types import BYTES
from gristmill.core.kernels.utf8 import character_start, count_characters, decode, next_start

EDGES = "\x00\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(EDGES))


@entry(types.int64(BYTES, types.int64[::1]))
def _decoded(data: Any, codes: Any) -> Any:
    at = count = 0
    while at < data.size:
        codes[count], size = decode(data, at)
        at, count = at + size, count + 1
    return count


@entry(types.UniTuple(types.int64, 3)(BYTES, types.int64, types.int64))
def _looked(data: Any, begin: int, end: int) -> Any:
    return count_characters(data, begin, end), character_start(data, begin), next_start(data, begin, end)


@settings(deadline=None)  # the first case compiles
@given(TEXT)
def test_characters_are_those_of_python(text: str) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    codes = np.empty(len(data), np.int64)
    count = _decoded(data, codes)
    assert codes[:count].tolist() == list(map(ord, text))


@settings(deadline=None)
@given(TEXT.filter(bool), st.data())
def test_characters_are_counted_and_their_first_bytes_found(text: str, draw: st.DataObject) -> None:
    data = text.encode()
    end = draw.draw(st.integers(1, len(data)))
    begin = draw.draw(st.integers(0, end - 1))
    starts = [len(text[:i].encode()) for i in range(len(text))]
    assert _looked(np.frombuffer(data, np.uint8), begin, end) == (
        sum(begin <= start < end for start in starts),
        max(start for start in starts if start <= begin),
        min([start for start in starts if begin <= start < end], default=end),
    )
