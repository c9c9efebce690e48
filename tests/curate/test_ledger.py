"""What a ledger notes when a step's verdict on a batch is settled."""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.hashing import hash64
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import (
    READ,
    Ledger,
    add_counts,
    content_hashes,
    dropped_schema,
    passed,
    start_documents,
    step_names,
    text_digests,
)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 9))))
def test_counts_add_up_as_those_of_a_counter_do_in_its_order(counts: list[dict[str, int]]) -> None:
    found, expected = dict[str, int](), Counter[str]()
    for each in counts:
        add_counts(found, each)
        expected.update(each)
    assert list(found.items()) == list(expected.items())


def _documents(texts: Sequence[str]) -> Documents:
    names = [f"doc-{row}" for row in range(len(texts))]
    places = {"id": names, "source": ["web"] * len(texts), "path": ["a.txt"] * len(texts)}
    rows, column = pa.array(range(len(texts)), pa.int64()), pa.array(texts, pa.large_string())
    return start_documents(pa.record_batch({**places, "row": rows, "text": column}), 0)


def _codes(*codes: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.array(codes, np.int16)


@pytest.mark.parametrize(("names", "own"), [
    ([], []),
    (["length", "c4"], ["length", "c4"]),
    (["length", "c4", "length", "length", "c4"], ["length", "c4", "length-2", "length-3", "c4-2"]),
    (["a", "a-2", "a", "a-2"], ["a", "a-2", "a-3", "a-2-2"]),
])  # fmt: skip
def test_each_step_has_a_name_of_its_own(names: list[str], own: list[str]) -> None:
    assert step_names(names) == own


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


BATCH = pa.record_batch(
    {"id": ["a", "b"], "text": pa.array(["one", "three"], pa.large_string()), "url": pa.array([None, "u"], pa.string())}
)


def test_documents_are_numbered_from_the_first_and_bear_no_mark() -> None:
    batch = start_documents(BATCH, 1 << 32).batch
    assert batch.column("doc").to_pylist() == [1 << 32, (1 << 32) + 1]
    assert batch.column("edits").to_pylist() == [0, 0]


def test_rows_carry_what_came_in_and_the_size_and_hashes_of_the_text_as_it_is_now() -> None:
    documents = start_documents(BATCH, 0)
    kept = passed(documents.with_text(np.frombuffer(b"onethree!", np.uint8), np.array([0, 3, 9])), Ledger()).kept
    assert kept.column("url").to_pylist() == [None, "u"]
    assert kept.column("bytes").to_pylist() == [3, 6]
    assert kept.column("id_hash").to_numpy().view(np.uint64).tolist() == [hash64("a"), hash64("b")]
    now = start_documents(
        pa.record_batch({"id": ["a", "b"], "text": pa.array(["one", "three!"], pa.large_string())}), 0
    )
    assert kept.column("content_hash").to_numpy().tolist() == content_hashes(now).tolist()
    halves = [kept.column(name).to_numpy().tolist() for name in ("hash_hi", "hash_lo")]
    assert halves == [half.tolist() for half in text_digests(now)]


def test_hashes_that_a_batch_already_has_are_made_anew() -> None:
    once = passed(start_documents(BATCH, 0), Ledger()).kept
    again = passed(start_documents(once.drop_columns(["doc", "edits"]), 0), Ledger()).kept
    assert again.select(once.schema.names) == once


def _texts(texts: Sequence[str]) -> Documents:
    return Documents(pa.record_batch({"text": pa.array(texts, pa.large_string())}))


def test_what_a_store_keeps_is_the_low_half_of_xxh3_128() -> None:
    texts = ["", "a", "größer", "x" * 1000]
    for text, low in zip(texts, content_hashes(_texts(texts)), strict=True):
        assert int(low) % 2**64 == xxhash.xxh3_128_intdigest(text.encode()) % 2**64


def test_texts_are_compared_by_a_hash_that_nobody_can_forge() -> None:
    texts = [*("ä" * n for n in range(300)), "x" * 1000, "y" * 12_345]
    for text, *halves in zip(texts, *text_digests(_texts(texts)), strict=True):
        assert struct.pack("<qq", *halves) == hashlib.blake2b(text.encode(), digest_size=16).digest()


@given(texts=st.lists(st.text(max_size=6), max_size=20), cut=st.integers(0, 20))
def test_hash_does_not_depend_on_the_batch(texts: list[str], cut: int) -> None:
    whole = np.stack(text_digests(_texts(texts)))
    parts = [np.stack(text_digests(_texts(part))) for part in (texts[:cut], texts[cut:])]
    assert np.array_equal(whole, np.concatenate(parts, axis=1))
