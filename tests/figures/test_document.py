"""One document: its place and text, or why it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

import gristmill as gm
from gristmill.figures.document import find_document


def opened(store: Path) -> list[gm.Store]:
    return [gm.open(store / "train"), gm.open(store / "val")]


def test_a_document_has_its_place_its_fields_and_its_text(store: Path) -> None:
    (found,), dropped = find_document(store, opened(store), "d7")
    assert found["text"] == "Document 7 tells of the mill and of its wheel." and found["source"] == "web"
    assert not dropped
    held = gm.open(str(found["store"]))
    assert held.document_span(int(str(found["number"]))) == (found["start"], found["end"])


def test_one_that_a_rule_dropped_has_the_rule_the_reason_and_its_text(store: Path) -> None:
    found, (row,) = find_document(store, opened(store), "d40")
    assert not found and (row["rule"], row["reason"], row["text"]) == ("length", "too_few_chars", "short")


def test_an_id_that_nothing_has_is_an_error_that_names_the_stores(store: Path) -> None:
    with pytest.raises(gm.ConfigError, match=r"train and .*val has the id 'none'"):
        find_document(store, opened(store), "none")
