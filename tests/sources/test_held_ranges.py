"""Ranges of a file elsewhere, held for readers that jump about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from far_place import Far
from gristmill.places import ranges
from gristmill.sources.held_ranges import HeldRanges, bytes_at

SIZE = 2000
SPANS = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, 300)), max_size=5)
READS = st.lists(st.tuples(st.integers(0, SIZE + 20), st.integers(0, 900)), max_size=12)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spans=SPANS, reads=READS, gap=st.integers(0, 200), most=st.integers(1, 500))
def test_what_is_read_is_what_lies_there_whatever_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spans: list[tuple[int, int]], reads: list[tuple[int, int]],
    gap: int, most: int,
) -> None:  # fmt: skip
    data = np.random.default_rng(0).bytes(SIZE)
    (tmp_path / "a").write_bytes(data)
    monkeypatch.setattr(ranges, "GAP_BYTES", gap)
    monkeypatch.setattr(ranges, "SPAN_BYTES", most)
    place = Far(f"far://{str(tmp_path / 'a')[1:]}")
    spans = [(start, min(size, SIZE - start)) for start, size in spans]
    file = HeldRanges(place, SIZE, spans)
    for start, size in reads:
        file.seek(start)
        assert file.read(size) == data[start : start + size]
    Far.reads.clear()
    for start, size in spans:
        file.seek(start)
        assert file.read(size) == data[start : start + size]
    assert not Far.reads, "what is held is asked for no more"
    assert file.seek(0, 2) == SIZE and file.read(1) == b"" and bytes_at(place, 5, 3) == data[5:8]
