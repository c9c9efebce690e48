"""The bytes of a store depend neither on workers nor on the order in which units are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.engine.base import P, R
from gristmill.engine.inline import InlineEngine
from gristmill.store.verify import verify

Run = Callable[..., Path]
Read = Callable[[Path], dict[str, Any]]


def test_the_store_is_whole_and_holds_less_than_came_in(whole: dict[str, Any], run: Run) -> None:
    root = run("out")
    assert not verify(root).faults
    assert 0 < gm.open(root / "train").num_documents < 80
    assert len([name for name in whole if name.endswith(".bin")]) > 5


@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_gives_the_same_bytes(run: Run, read: Read, whole: dict[str, Any], workers: int) -> None:
    assert read(run("out", workers=workers)) == whole


def test_an_engine_that_does_units_in_another_order_gives_the_same_bytes(
    run: Run, read: Read, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def backwards(self: InlineEngine, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        results = {i: function(parts[i]) for i in reversed(range(len(parts)))}
        return (results[i] for i in range(len(parts)))

    monkeypatch.setattr(InlineEngine, "map", backwards)
    assert read(run("out")) == whole


@pytest.mark.parametrize("options", [{"shuffle": True}, {"store": {"compression": "zstd"}}])
def test_shuffled_and_compressed_stores_too(run: Run, read: Read, options: dict[str, Any]) -> None:
    assert read(run("one", workers=1, **options)) == read(run("two", workers=2, **options))


def test_shuffling_moves_documents_and_loses_none(run: Run) -> None:
    plain, shuffled = (gm.open(run(name, shuffle=name == "b") / "train") for name in ("a", "b"))
    ids = [[store.document(i).id for i in range(store.num_documents)] for store in (plain, shuffled)]
    assert ids[0] != ids[1] and sorted(ids[0]) == sorted(ids[1])
    other = gm.open(run("c", shuffle=True, seed=1) / "train")
    assert [other.document(i).id for i in range(20)] != ids[1][:20]


def test_a_document_of_a_shuffled_store_has_its_own_tokens_and_fields(run: Run) -> None:
    plain, shuffled = (gm.open(run(name, shuffle=name == "b") / "train") for name in ("a", "b"))
    texts = {(document := plain.document(i)).id: document for i in range(plain.num_documents)}
    for i in range(shuffled.num_documents):
        found = shuffled.document(i)
        assert found.text == texts[found.id].text and found.record["url"] == texts[found.id].record["url"]
