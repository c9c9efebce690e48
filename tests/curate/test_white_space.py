"""White space against `str.strip`."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.types import BYTES
from gristmill.curate.characters import characters
from gristmill.curate.white_space import skip_spaces, strip

TEXT = st.text(st.sampled_from("a é漢😀\t\n\x0b\x1c\x1f\x85\xa0\u2003\u2028\u3000\u200b"), max_size=12)


@entry(types.UniTuple(types.int64, 3)(BYTES, BYTES))
def _bounds(data: Any, table: Any) -> Any:
    begin, end = strip(data, 0, data.size, table)
    return skip_spaces(data, 0, data.size, table), begin, end


@settings(deadline=None)  # the first case compiles
@given(TEXT)
def test_what_is_left_is_what_str_strip_leaves(text: str) -> None:
    data = text.encode()
    first, begin, end = _bounds(np.frombuffer(data, np.uint8), characters())
    assert data[begin:end].decode() == text.strip()
    assert data[first:].decode() == text.lstrip()
