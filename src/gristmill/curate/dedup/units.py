"""The files of one unit of the input, as the search for near duplicates sees them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gristmill.curate.documents import Ints


@dataclass(frozen=True)
class NearUnit:
    """Unit number `unit` (doc >> 32), the Parquet file of what `sign` gave, and that of the texts (doc, id, text)."""

    unit: int
    signatures: Path
    texts: Path


def documents_of(unit: int, path: Path) -> Ints:
    """The documents of a unit among those of a Parquet file sorted by `doc`: other row groups are skipped."""
    import pyarrow.parquet as pq

    inside = [("doc", ">=", unit << 32), ("doc", "<", (unit + 1) << 32)]
    return np.asarray(pq.read_table(path, columns=["doc"], filters=inside)["doc"])
