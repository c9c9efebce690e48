"""Functions compiled by three decorators: what is called from Python is compiled as a whole, the rest is part of it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numba import types

from gristmill.core.compiled import compiled, entry
from gristmill.core.kernels.texts import differ
from gristmill.core.kernels.utf8 import decode


def test_an_entry_takes_arrays_of_its_own_layout_only() -> None:
    data, offsets, found = np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2]), np.zeros(2, np.bool_)
    differ(data, offsets, np.frombuffer(b"ax", np.uint8), offsets, found)
    assert found.tolist() == [False, True]
    with pytest.raises(TypeError, match="No matching definition"):
        differ(data.astype(np.int32), offsets, data, offsets, found)


def test_a_helper_says_that_it_is_no_function_of_its_own() -> None:
    with pytest.raises(TypeError, match="decode is part of compiled functions, and cannot be called from Python"):
        decode(np.zeros(4, np.uint8), 0)


def test_kernels_run_uncompiled_for_a_debugger() -> None:
    ask = "from gristmill.core.kernels.utf8 import decode; print(decode(b'a', 0)[0])"
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-P", "-B", "-c", ask]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "97\n"


@compiled
def _rest(data):  # type: ignore[no-untyped-def]
    return data[1:]


@pytest.mark.filterwarnings("ignore")
def test_a_helper_that_gives_back_an_array_is_refused() -> None:
    def second(data):  # type: ignore[no-untyped-def]
        return _rest(data)[0]

    with pytest.raises(Exception, match="Only accept returning of array passed into the function"):
        entry(types.float64(types.float64[::1]))(second)
