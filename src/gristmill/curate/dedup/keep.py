"""Which of several equal documents stays: the one with the smallest (keep key, doc)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from gristmill.core.arrays import Ints
    from gristmill.curate.documents import Documents

Keep = Literal["first", "longest", "priority"]


def keep_keys(documents: Documents, keep: Keep, priorities: Mapping[str, int]) -> Ints:
    """By document: 0 (first), minus its bytes (longest), or minus its source's priority, 0 if it has none."""
    if keep == "longest":
        return np.asarray(-np.diff(documents.offsets))
    if keep == "priority":
        return _by_source(documents, priorities)
    return np.zeros(len(documents), np.int64)


def _by_source(documents: Documents, priorities: Mapping[str, int]) -> Ints:
    encoded = pc.dictionary_encode(documents.batch.column("source"))
    keys = np.array([-priorities.get(source, 0) for source in encoded.dictionary.to_pylist()], np.int64)
    return np.asarray(keys[np.asarray(encoded.indices)])
