"""Files by a sample of their bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.store.files import spread_blocks


@given(st.integers(0, 300_000), st.sampled_from([1, 8, 4096]))
@settings(max_examples=25, deadline=None)
def test_blocks_lie_evenly_from_the_first_byte_of_a_file_to_its_last(size: int, multiple: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x")
        path.write_bytes(data)
        found, blocks = spread_blocks(path, multiple)
    starts = [start for start, _ in blocks]
    assert found == size and len(blocks) == 64 and starts == sorted(starts) and starts[0] == 0
    assert all(start % multiple == 0 and block == data[start : start + 4096] for start, block in blocks)
    assert starts[-1] + 4096 >= size and max(np.diff(starts), default=0) <= size / 63 + multiple
