"""Which reader a file gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.sources.base import Format, InputFile
from gristmill.sources.kinds import kind_of


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.jsonl", "jsonl"), ("a.ndjson.gz", "jsonl"), ("A.JSONL.ZST", "jsonl"),
        ("a.parquet", "parquet"), ("a.pq", "parquet"), ("a.arrow", "arrow"), ("a.feather", "arrow"),
        ("a.tar", "webdataset"), ("a.tar.gz", "webdataset"), ("a.txt", "text"), ("a.md.bz2", "text"),
        ("README", "text"), ("a.c", "text"),
    ],
)  # fmt: skip
def test_the_suffix_below_the_packing_chooses_and_anything_else_is_text(name: str, format: str) -> None:
    file = InputFile("web", Path(name), name)
    assert kind_of(file, Format()) is kind_of(InputFile("web", Path("x"), "x"), Format(format=format))


def test_a_format_that_is_named_wins_over_the_suffix() -> None:
    file = InputFile("web", Path("a.txt"), "a.txt")
    assert kind_of(file, Format(format="jsonl")) is kind_of(InputFile("web", Path("a.jsonl"), "a"), Format())


def test_plain_text_alone_brings_no_ids_and_may_be_empty() -> None:
    kinds = {name: kind_of(InputFile("web", Path(name), name), Format()) for name in ("a.txt", "a.jsonl", "a.parquet")}
    assert [(kind.brings_ids, kind.needs_bytes) for kind in kinds.values()] == [
        (False, False),
        (True, True),
        (True, True),
    ]
