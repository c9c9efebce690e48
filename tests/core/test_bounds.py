"""Kernels stay inside of their arrays: their own tests pass while Numba checks every index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Kernels are compiled anew for this, 20 to 200 s in all: `make test` takes those that read files and fill batches.
QUICK = (
    "sources/test_jsonl.py",
    "sources/test_json_arrays.py",
    "sources/test_tar_samples.py",
    "order/test_plan.py",
    "loader/test_batches_from.py",
)
ALL = ("core/kernels", "sources", "curate", "order", "loader", "store", "properties", "stages/test_same_bytes.py")

OUTSIDE = """
import numpy as np
from numba import types
from gristmill.core.compiled import compiled, entry

@compiled
def item(values, at):
    return values[at]

@entry(types.int64(types.int64[::1], types.int64))
def kernel(values, at):
    return item(values, at)

assert kernel(np.arange(3), 2) == 2
for at in (3, -1):
    try:
        kernel(np.arange(3), at)
    except IndexError:
        print("found", at)
"""


@pytest.fixture
def checked(pytestconfig: pytest.Config) -> dict[str, str]:
    """An environment in which indices are checked; what is compiled in it is kept apart from the code of others."""
    assert pytestconfig.cache is not None
    kept = pytestconfig.cache.mkdir("numba-with-bounds")
    return {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(kept)}


def test_an_index_outside_of_an_array_would_be_found(checked: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(OUTSIDE)
    ran = subprocess.run([sys.executable, tmp_path / "outside.py"], env=checked, capture_output=True, text=True)
    assert ran.stdout == "found 3\nfound -1\n", ran.stderr


def test_the_tests_of_kernels_pass_while_every_index_is_checked(checked: dict[str, str], soak: bool) -> None:
    chosen = [str(TESTS / name) for name in (ALL if soak else QUICK)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *chosen]
    ran = subprocess.run(command, env=checked, cwd=TESTS.parent, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
