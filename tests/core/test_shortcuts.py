"""Numba is left as it was found, and an error still says where it was."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import numba
import numpy as np
import pytest
from numba import types
from numba.core import errors

from gristmill.core.compiled import compiled, entry
from gristmill.core.shortcuts import _ways, shortcuts


def test_what_is_replaced_comes_back_after_an_error_too() -> None:
    before = [getattr(owner, name) for owner, name, _ in _ways()]
    with contextlib.suppress(RuntimeError), shortcuts():
        assert not gc.isenabled()
        assert all(getattr(owner, name) != one for (owner, name, _), one in zip(_ways(), before, strict=True))
        raise RuntimeError
    assert gc.isenabled()
    assert [getattr(owner, name) for owner, name, _ in _ways()] == before


def test_numba_compiles_code_of_others_as_before() -> None:
    @entry(types.int64(types.int64))
    def ours(number: Any) -> Any:
        return number + 1

    @numba.njit  # type: ignore[untyped-decorator]
    def theirs(values: Any) -> Any:
        return [values.sum() + value for value in values[::-1]]

    assert ours(1) == 2
    assert theirs(np.arange(3)) == [5, 4, 3]


@compiled
def _wrong(value: Any) -> Any:
    return value.no_such_part


def test_an_error_names_the_line_and_what_was_done_there() -> None:
    def calls(value: Any) -> Any:
        return _wrong(value)

    with pytest.raises(errors.TypingError, match=r"typing of get attribute at .*test_shortcuts.py") as raised:
        entry(types.int64(types.int64))(calls)
    assert "no_such_part" in str(raised.value)
