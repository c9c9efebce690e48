"""An id names one document: the second that brings it is refused, or skipped and told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps
from gristmill.sources.ids import first_of_each

FILE = InputFile("web", Path("a.jsonl"), "a.jsonl")


def batch(*ids: str) -> pa.RecordBatch:
    return pa.record_batch({"id": list(ids), "row": list(range(len(ids)))})


def test_ids_that_are_all_new_pass_as_they_are_and_are_remembered() -> None:
    seen: set[str] = set()
    given = batch("a", "b")
    assert first_of_each(given, seen, FILE, Mishaps()) is given and seen == {"a", "b"}


def test_the_first_of_each_stays_within_a_batch_and_across_batches() -> None:
    seen, mishaps = {"a"}, Mishaps("skip")
    kept = first_of_each(batch("a", "b", "b", "c"), seen, FILE, mishaps)
    assert kept.column("id").to_pylist() == ["b", "c"] and mishaps.skipped == 2 and seen == {"a", "b", "c"}
    assert mishaps.examples[0] == "a.jsonl (source 'web') has at 0 the id 'a' of an earlier document."


def test_a_repeated_id_ends_the_run_and_says_what_to_do() -> None:
    with pytest.raises(SourceError, match=r"has at 1 the id 'a' of an earlier document. Give each its own"):
        first_of_each(batch("a", "a"), set(), FILE, Mishaps())
