"""What a ledger notes when a step's verdict on a batch is settled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import READ, Ledger, dropped_schema
from gristmill.curate.rows import start_documents


def _documents(texts: Sequence[str]) -> Documents:
    names = [f"doc-{row}" for row in range(len(texts))]
    places = {"id": names, "source": ["web"] * len(texts), "path": ["a.txt"] * len(texts)}
    rows, column = pa.array(range(len(texts)), pa.int64()), pa.array(texts, pa.large_string())
    return start_documents(pa.record_batch({**places, "row": rows, "text": column}), 0)


def _codes(*codes: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.array(codes, np.int16)


def test_documents_that_stay_are_handed_on_and_the_others_noted_with_reason_and_figure() -> None:
    ledger = Ledger()
    judged = Verdict(("short", "long"), _codes(KEEP, 1, 0), np.array([0.5, 2.5, np.nan]), {1: "it goes on"})
    left = ledger.settle("size", _documents(["a", "bb", "ccc"]), judged)
    assert left.batch.column("id").to_pylist() == ["doc-0"]
    (gone,) = ledger.take_dropped()
    assert gone.schema == dropped_schema()
    columns = ["id", "rule", "reason", "value", "detail", "kept", "text"]
    assert [tuple(row.values()) for row in gone.select(columns).to_pylist()] == [
        ("doc-1", "size", "long", 2.5, "it goes on", None, "bb"),
        ("doc-2", "size", "short", None, None, None, "ccc"),
    ]


def test_counts_are_documents_and_bytes_after_each_step_in_the_order_of_the_steps() -> None:
    ledger, documents = Ledger(), _documents(["a", "bb", "ccc"])
    ledger.count(READ, documents)
    ledger.settle("size", documents, Verdict(("short",), _codes(0, KEEP, KEEP)))
    assert list(ledger.facts["after"].items()) == [(READ, [3, 6]), ("size", [2, 5])]
    assert ledger.facts["reasons"] == {"size": {"short": 1}}


def test_a_step_that_drops_nothing_is_in_the_account_with_no_reason() -> None:
    ledger, documents = Ledger(), _documents(["a"])
    assert ledger.settle("size", documents, Verdict(("short",), _codes(KEEP))) is documents
    assert ledger.facts["reasons"] == {"size": {}} and ledger.take_dropped() == []


@pytest.mark.parametrize("bit", [0, 3])
def test_only_documents_whose_text_changed_get_the_mark_of_the_step(bit: int) -> None:
    documents = _documents(["a", "bb"])
    edited = documents.with_text(np.frombuffer(b"aBB", np.uint8), np.array([0, 1, 3]))
    left = Ledger().settle("edit", documents, Verdict((), _codes(KEEP, KEEP), documents=edited), bit)
    assert left.batch.column("edits").to_pylist() == [0, 1 << bit]
    assert left.batch.column("text").to_pylist() == ["a", "BB"]


def test_a_document_that_is_edited_and_dropped_is_noted_as_it_was_before() -> None:
    ledger, documents = Ledger(), _documents(["bb", "c"])
    edited = documents.with_text(np.frombuffer(b"c", np.uint8), np.array([0, 0, 1]))
    ledger.settle("edit", documents, Verdict(("emptied",), _codes(0, KEEP), documents=edited))
    assert ledger.take_dropped()[0].column("text").to_pylist() == ["bb"]
