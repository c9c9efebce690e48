"""Documents as compiled code sees them: bytes and offsets over Arrow's own memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pytest

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.curate import documents as module
from gristmill.curate.documents import Documents, text_column

BATCH = pa.record_batch({"id": ["a", "b", "c"], "text": pa.array(["eins", "", "drü"], pa.large_string())})


@dataclass
class Counted:
    """A column that rules share."""

    sizes: Ints

    def take(self, rows: Ints) -> Self:
        return type(self)(self.sizes[rows])


def test_texts_lie_where_arrow_has_them() -> None:
    documents = Documents(BATCH)
    assert documents.offsets.tolist() == [0, 4, 4, 8] and documents.data[:4].tobytes() == b"eins"
    assert documents.data.ctypes.data == BATCH.column("text").buffers()[2].address
    sliced = Documents(BATCH.slice(2))
    assert len(sliced) == 1 and sliced.string(0) == "drü" and sliced.offsets.tolist() == [4, 8]
    assert len(Documents(BATCH.slice(0, 0))) == 0


def test_columns_that_rules_share_are_made_once_and_follow_the_documents() -> None:
    made = []

    def make(documents: Documents) -> Counted:
        made.append(documents)
        return Counted(np.diff(documents.offsets))

    documents = Documents(BATCH)
    assert documents.shared("sizes", make) is documents.shared("sizes", make) and len(made) == 1
    taken = documents.take(np.array([2, 0]))
    assert taken.shared("sizes", make).sizes.tolist() == [4, 4] and len(made) == 1
    assert documents.with_batch(BATCH).shared("sizes", make) and len(made) == 1


def test_other_texts_take_the_place_of_the_old_and_share_nothing() -> None:
    documents = Documents(BATCH)
    changed = documents.with_text(np.frombuffer(b"onethree", np.uint8), np.array([0, 3, 3, 8]))
    assert changed.batch.column("text").to_pylist() == ["one", "", "three"]
    assert changed.batch.column("id").to_pylist() == ["a", "b", "c"] and documents.string(0) == "eins"
    assert text_column(changed.data, changed.offsets).equals(changed.batch.column("text"))


def test_a_document_whose_places_no_number_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 3)
    with pytest.raises(SourceError, match="Document a is longer than 2 GiB"):
        Documents(BATCH)
