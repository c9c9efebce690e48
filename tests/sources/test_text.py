"""Plain text files: the whole file is the document."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps, RawDocument
from gristmill.sources.text import read_text


def read(path: Path, data: bytes, mishaps: Mishaps | None = None) -> list[RawDocument]:
    path.write_bytes(data)
    return list(read_text(InputFile("web", path, path.name), mishaps or Mishaps()))


def test_a_file_is_one_document_named_by_source_and_file(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", "Grüße\n".encode()) == [RawDocument("web/a.txt", "a.txt", "Grüße\n")]


def test_line_ends_and_blanks_are_kept_as_they_are(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", b" a\r\nb\rc\n\n\0")[0].text == " a\r\nb\rc\n\n\0"


def test_a_byte_order_mark_is_dropped_at_the_start_and_only_there(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", b"\xef\xbb\xbfa\xef\xbb\xbfb")[0].text == "a\ufeffb"


@pytest.mark.parametrize(("data", "byte"), [(b"ok \xff", "byte 3 "), (b"\xef\xbb\xbfok \xff", "byte 6 ")])
def test_invalid_utf8_names_file_and_byte(tmp_path: Path, data: bytes, byte: str) -> None:
    with pytest.raises(SourceError, match=byte) as caught:
        read(tmp_path / "bad.txt", data)
    assert "bad.txt" in str(caught.value) and "--on-error skip" in str(caught.value)


def test_skipped_files_are_counted_by_source_with_an_example(tmp_path: Path) -> None:
    mishaps = Mishaps("skip")
    assert read(tmp_path / "bad.txt", b"\xff", mishaps) == []
    assert mishaps.skipped == mishaps.by_source["web"] == 1 and "bad.txt" in mishaps.examples[0]


def test_a_file_that_went_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone.txt cannot be read \(No such file"):
        list(read_text(InputFile("web", tmp_path / "gone.txt", "gone.txt"), Mishaps()))
