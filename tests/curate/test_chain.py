"""The chain by itself: Arrow batches in, Arrow batches and an account out; no unit, file or engine is in sight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gristmill.curate.chain import Curation
from gristmill.curate.clean import CleanOptions
from gristmill.curate.ledger import Ledger, Passed, dropped_schema
from gristmill.curate.rules import make_rule

PROSE = "The miller opened the sluice, and the wheel began to turn. "


def _batch(texts: Sequence[str]) -> pa.RecordBatch:
    """Documents as any reader, or a stream, would hand them over."""
    count = len(texts)
    return pa.record_batch(
        {
            "id": [f"doc-{row}" for row in range(count)],
            "source": ["web"] * count,
            "path": ["feed"] * count,
            "row": pa.array(range(count), pa.int64()),
            "text": pa.array(texts, pa.large_string()),
            "url": pa.array([None] * count, pa.string()),
        }
    )


@pytest.fixture
def curation() -> Curation:
    return Curation(CleanOptions(), (make_rule("length", {"min_chars": 20}), make_rule("c4")))


def _run(curation: Curation, texts: Sequence[str], first: int = 0, ledger: Ledger | None = None) -> Passed:
    return curation.run(_batch(texts), first, ledger or Ledger())


def test_a_batch_leaves_as_rows_that_stay_and_rows_that_left(curation: Curation) -> None:
    passed = _run(curation, [PROSE * 9, "short", PROSE * 8], first=40)
    assert passed.kept.column("doc").to_pylist() == [40, 42]
    made = {"id_hash", "bytes", "content_hash", "hash_hi", "hash_lo"}
    assert set(passed.kept.schema.names) == {"doc", *_batch([]).schema.names, "edits", *made}
    (left,) = passed.dropped
    assert left.schema == dropped_schema()
    assert left.select(["doc", "id", "rule", "reason", "value", "text"]).to_pylist() == [
        {"doc": 41, "id": "doc-1", "rule": "length", "reason": "too_few_chars", "value": 5.0, "text": "short"}
    ]


def test_the_ledger_adds_up_over_batches(curation: Curation) -> None:
    ledger = Ledger()
    for texts in ([PROSE * 9, "short"], ["tiny", PROSE * 8 + "\r\n"]):
        _run(curation, texts, ledger=ledger)
    after = {step: documents for step, (documents, _) in ledger.facts["after"].items()}
    assert after == {"read": 4, "clean": 4, "length": 2, "c4": 2, "empty": 2}
    assert ledger.facts["reasons"] == {"length": {"too_few_chars": 2}, "c4": {}, "empty": {}}
    assert ledger.facts["edits"]["line_ends"] == 1


def test_steps_are_in_their_order_even_where_the_first_batch_reaches_none_of_the_later_ones(curation: Curation) -> None:
    ledger = Ledger()
    for texts in (["short"], [PROSE * 9]):
        _run(curation, texts, ledger=ledger)
    after = [(step, documents) for step, (documents, _) in ledger.facts["after"].items()]
    assert after == [("read", 2), ("clean", 2), ("length", 1), ("c4", 1), ("empty", 1)]


def test_what_has_left_is_handed_over_once(curation: Curation) -> None:
    ledger = Ledger()
    assert len(_run(curation, ["short"], ledger=ledger).dropped) == 1
    assert _run(curation, [PROSE * 9], ledger=ledger).dropped == []


def test_a_text_is_marked_by_the_steps_that_changed_it(curation: Curation) -> None:
    prose = (PROSE * 9).strip()
    kept = _run(curation, [prose, prose + "\r\n", prose + " \nno end mark in this line of words"]).kept
    assert curation.steps == ["clean", "length", "c4"]
    assert kept.column("edits").to_pylist() == [0b000, 0b001, 0b101]


@pytest.fixture
def repeated() -> Curation:
    limits = ({"min_chars": 20}, {"max_chars": 100, "min_chars": 0})
    return Curation(CleanOptions(), tuple(make_rule("length", each) for each in limits))


def test_rules_of_one_name_are_told_apart(repeated: Curation) -> None:
    ledger = Ledger()
    left = pa.concat_tables(_run(repeated, [PROSE, "short", PROSE * 9, PROSE * 8], ledger=ledger).dropped)
    after = {step: documents for step, (documents, _) in ledger.facts["after"].items()}
    assert after == {"read": 4, "clean": 4, "length": 3, "length-2": 1, "empty": 1}
    reasons = {"length": {"too_few_chars": 1}, "length-2": {"too_many_chars": 2}, "empty": {}}
    assert ledger.facts["reasons"] == reasons
    assert left.column("rule").to_pylist() == ["length", "length-2", "length-2"]
    assert repeated.steps == ["clean", "length", "length-2"]


def test_work_of_repeated_rules_is_known_by_their_names_and_other_work_as_before(
    curation: Curation, repeated: Curation
) -> None:
    assert repeated.content["names"] == ["length", "length-2"] and curation.content.keys() == {"clean", "rules"}


def test_a_document_without_text_is_dropped_by_that_name_even_where_there_are_no_rules() -> None:
    passed = _run(Curation(None, ()), ["", "a"])
    assert passed.kept.column("id").to_pylist() == ["doc-1"]
    assert [table.column("reason").to_pylist() for table in passed.dropped] == [["empty"]]


def test_the_same_documents_in_other_batches_meet_the_same_fate(curation: Curation) -> None:
    texts = [PROSE * 9, "short", PROSE * 8 + "\r", "{ braces }", PROSE]
    ledger, parts = Ledger(), []
    for at, text in enumerate(texts):
        parts.append(_run(curation, [text], first=at, ledger=ledger).kept.drop_columns(["id", "id_hash", "row"]))
    whole_ledger = Ledger()
    whole = _run(curation, texts, ledger=whole_ledger).kept.drop_columns(["id", "id_hash", "row"])
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([whole])
    assert _without_gaps(ledger.facts) == _without_gaps(whole_ledger.facts)


def _without_gaps(facts: dict[str, Any]) -> dict[str, Any]:
    return {**facts, "reasons": {step: found for step, found in facts["reasons"].items() if found}}


def test_warming_calls_no_function_of_the_user(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text("def keep(document):\n    raise RuntimeError('called')\n")
    Curation(CleanOptions(), (make_rule("length"), make_rule("function", {"path": str(module)}))).warm()
