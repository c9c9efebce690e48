"""Rows for queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """300,000 rows (doc, hash) in three files; each hash is there about three times."""
    folder, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    paths = [folder / f"{i}.parquet" for i in range(3)]
    for path, docs in zip(paths, np.split(np.arange(300_000), 3), strict=True):
        pq.write_table(pa.table({"doc": docs, "hash": rng.integers(-(10**5) // 2, 10**5 // 2, len(docs))}), path)
    return paths
