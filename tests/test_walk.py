"""The way of one document through the house, traced: which rooms it crosses, and how often a batch enters each."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Half of what a review counted when stages and curate went back and forth four times a batch.
MOST_CROSSINGS = 16


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("walk")


def _steps(walk: Any, *dedup: str) -> Any:
    """A few rules stand for all: each is called by the chain alone."""
    return walk.Steps(("length", "c4"), dedup)


def test_a_document_crosses_from_room_to_room_sixteen_times_at_most(walk: Any) -> None:
    crossings = walk.walk_document(_steps(walk, "exact", "near")).crossings
    assert len(crossings) <= MOST_CROSSINGS, "\n".join(f"{a} -> {b}" for a, b in crossings)


def test_no_job_enters_a_room_twice_for_a_batch(walk: Any) -> None:
    assert walk.entered_twice(_steps(walk, "exact", "lines", "near")) == {}
