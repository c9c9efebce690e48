"""What a loader delivers, as figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.figures.bench import Asked, measured
from gristmill.testing import tiny_store


def test_each_number_of_threads_has_its_tokens_batches_and_first_batch(tmp_path: Path) -> None:
    rows = measured(tiny_store(tmp_path), Asked(16, 4, "chunk", ("labels",)), seconds=0.001)
    assert [row.threads for row in rows] == [0, 1, 2]
    for row in rows:
        assert row.tokens_per_second == pytest.approx(row.batches_per_second * 16 * 4) and row.first_batch_seconds > 0
