"""Runs of numbers out of files that cannot be mapped: few requests, none too long, and nothing that is not there."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from gristmill.core.errors import EngineError
from gristmill.places import ranges
from gristmill.places.door import place_at
from gristmill.places.local import Local
from gristmill.places.ranges import copy_runs, spans_of


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "SPAN_BYTES", 20)
    monkeypatch.setattr(ranges, "GAP_BYTES", 4)


def test_near_runs_are_fetched_together_and_long_ones_in_pieces() -> None:
    runs = np.array([[30, 3, 0], [0, 2, 3], [4, 1, 5], [8, 25, 6]])
    assert [(first, stop) for first, stop, _ in spans_of(runs, 2)] == [(0, 5), (8, 18), (18, 28), (28, 33)]


@pytest.mark.parametrize("seed", range(20))
def test_fetched_runs_are_those_of_a_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    runs, to = [], 0
    for _ in range(chance.randrange(1, 30)):
        start, size = chance.randrange(900), chance.randrange(100)
        runs.append((start, size, to))
        to += size
    found = []
    for maps in (True, False):
        monkeypatch.setattr(Local, "maps", maps)
        found.append(np.zeros(to, np.uint16))
        copy_runs(place_at(tmp_path / "a.bin"), np.array(runs), found[-1])
    assert found[0].tolist() == found[1].tolist() == [start + i for start, size, _ in runs for i in range(size)]


def test_a_file_that_lost_its_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(6))
    monkeypatch.setattr(Local, "maps", False)
    with pytest.raises(EngineError, match=r"a\.bin is shorter than it was written"):
        copy_runs(place_at(tmp_path / "a.bin"), np.array([[0, 4, 0]]), np.zeros(4, np.uint16))
