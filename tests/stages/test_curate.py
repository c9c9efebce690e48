"""What could not be read is in the account, with file and place, and the note names each damaged file once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.core.errors import SourceError
from gristmill.core.progress import Quiet
from gristmill.recipe import Recipe, SourceOptions, StoreOptions

Row = dict[str, Any]


class Notes(Quiet):
    """Keeps what a run has to say."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def prepare(tmp_path: Path) -> Callable[..., tuple[list[Row], list[str]]]:
    """Files by name to the rows of `dropped.parquet` and the notes of the run."""

    def run(**files: bytes) -> tuple[list[Row], list[str]]:
        (tmp_path / "in").mkdir()
        for name, data in files.items():
            (tmp_path / "in" / name.replace("_", ".")).write_bytes(data)
        sources = [SourceOptions("web", [str(tmp_path / "in")])]
        notes = Notes()
        recipe = Recipe(
            str(tmp_path / "out"), sources, tokenizer="byte", on_error="skip", store=StoreOptions(val_fraction=0)
        )
        gm.prepare(recipe, progress=notes)
        return pq.read_table(tmp_path / "out" / "dropped.parquet").to_pylist(), notes.said

    return run


GOOD = b'{"text": "A text that can be read.", "id": "good"}\n'
PACKED = gzip.compress(b"".join(b'{"text": "text %d"}\n' % i for i in range(1000)))[:-20]


def test_unreadable_documents_and_files_are_rows_with_file_and_place(
    prepare: Callable[..., Any], tmp_path: Path
) -> None:
    bad = GOOD + b"no JSON\n" + b'{"text": "again", "id": "good"}\n'
    rows, _ = prepare(a_jsonl=bad, b_jsonl_gz=PACKED, c_txt=b"caf\xe9")
    found = [(row["id"], row["path"], row["row"], row["rule"], row["reason"]) for row in rows]
    assert found == [
        ("web/a.jsonl@51", "a.jsonl", 51, "unreadable", "unreadable"),
        ("good", "a.jsonl", 59, "unreadable", "unreadable"),
        ("web/b.jsonl.gz", "b.jsonl.gz", None, "unreadable", "unreadable"),
        ("web/c.txt", "c.txt", None, "unreadable", "unreadable"),
    ]
    assert rows[0]["detail"].startswith(f"{tmp_path / 'in' / 'a.jsonl'}, line 2 is not JSON: ")
    funnel = json.loads((tmp_path / "out" / "funnel.json").read_text())
    assert {"stage": "unreadable", "source": "web", "documents": 4} in funnel


def test_the_note_names_each_damaged_file_and_advises_nothing_that_was_said(prepare: Callable[..., Any]) -> None:
    _, notes = prepare(a_jsonl=GOOD + b"no\n" * 7, b_jsonl_gz=PACKED, c_txt=b"caf\xe9", d_jsonl=b"no\n")
    (note,) = [note for note in notes if "could not be read" in note]
    assert note.startswith("10 documents could not be read and were skipped (dropped.parquet lists them): ")
    assert all(
        name in note for name in ("a.jsonl, line 2", "and 6 more there", "b.jsonl.gz", "c.txt", "d.jsonl, line 1")
    )
    assert "skip." not in note and "on_error" not in note and "--on-error" not in note


def test_files_of_no_bytes_are_named_and_no_error(prepare: Callable[..., Any]) -> None:
    rows, notes = prepare(a_jsonl=GOOD, b_jsonl=b"", c_parquet=b"", d_jsonl_gz=b"")
    assert "Of the 4 input files 3 hold nothing (0 bytes): b.jsonl, c.parquet, d.jsonl.gz." in notes and rows == []


def test_nothing_but_files_of_no_bytes_is_an_error(prepare: Callable[..., Any]) -> None:
    with pytest.raises(SourceError, match=r"The 2 input files hold no text \(2 of them are empty\)"):
        prepare(b_jsonl=b"", c_parquet=b"")


def test_bad_lines_by_the_thousand_do_not_wait_in_memory(prepare: Callable[..., Any]) -> None:
    rows, notes = prepare(a_jsonl=GOOD + b"no\n" * 3000)
    assert len(rows) == 3000 and [row["row"] for row in rows] == list(range(51, 51 + 9000, 3))
    assert any("and 2,999 more there" in note for note in notes)
