"""What an index says of itself, and to whom it belongs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.dedup.index import INDEX, describe, index_fingerprint, is_part, open_index, part_path
from gristmill.curate.dedup.near import Near


def make(folder: Path, near: Near, **others: object) -> Near:
    folder.mkdir(exist_ok=True)
    (folder / INDEX).write_text(json.dumps({**describe(near, 2), **others}))
    for part in range(2):
        part_path(folder, part, "keys.parquet").write_bytes(bytes([part]) * 100)
    return Near(index=str(folder))


def test_its_files_are_opened_for_the_options_that_made_it(tmp_path: Path) -> None:
    opened = open_index(make(tmp_path, Near()))
    assert [file.name for file in opened.keys] == ["part-000000.keys.parquet", "part-000001.keys.parquet"]
    assert len(opened.ids) == 2 and not opened.notes and open_index(Near()).keys == ()


@pytest.mark.parametrize(("others", "said"), [
    ({"ngram": 4}, "was made with ngram 4, the recipe says 5"), ({"version": 1}, "was made with version 1"),
    ({"sets": False}, "has no shingle sets"),
])  # fmt: skip
def test_one_of_other_options_is_refused(tmp_path: Path, others: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_index(make(tmp_path, Near(), **others))


def test_another_unicode_is_a_note(tmp_path: Path) -> None:
    (note,) = open_index(make(tmp_path, Near(), unicode="1.0")).notes
    assert "was made with Unicode 1.0" in note


def test_its_fingerprint_is_that_of_its_content_wherever_it_lies(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make(tmp_path / name, Near())
    first, second = (index_fingerprint(tmp_path / name) for name in ("a", "b"))
    part_path(tmp_path / "b", 1, "keys.parquet").write_bytes(b"other")
    assert first == second != index_fingerprint(tmp_path / "b")
    with pytest.raises(ConfigError, match=r"is no near-duplicate index"):
        index_fingerprint(tmp_path / "c")


def test_its_names_are_known() -> None:
    assert all(map(is_part, (INDEX, "part-000000.keys.parquet", "part-1234567.sets.arrow", "part-000001.ids.parquet")))
    assert not any(
        map(is_part, ("part-0.keys.parquet", "part-000000.keys.parquet.bak", "notes.txt", "part-000000.txt"))
    )
