"""Plain text: what is a document, and how what is no text is reported."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import SourceError
from gristmill.sources import base
from gristmill.sources.base import Format, Mishaps

Read = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def text_of(tmp_path: Path, read: Read) -> Callable[..., list[dict[str, Any]]]:
    def of(data: bytes, documents: str = "file", name: str = "a.txt", **options: Any) -> list[dict[str, Any]]:
        (tmp_path / name).write_bytes(data)
        mishaps = options.pop("mishaps", None)
        return read(tmp_path / name, Format(documents=documents, **options), mishaps)

    return of


def test_a_file_is_one_document_named_by_source_and_file(text_of: Read) -> None:
    found = text_of("Grüße\n".encode(), fields=("url",))
    assert found == [{"id": "web/a.txt", "source": "web", "path": "a.txt", "row": 0, "text": "Grüße\n", "url": None}]


def test_line_ends_and_blanks_are_kept_as_they_are(text_of: Read) -> None:
    assert text_of(b" a\r\nb\rc\n\n")[0]["text"] == " a\r\nb\rc\n\n"


@pytest.mark.parametrize("documents", ["file", "line", "paragraph"])
def test_a_byte_order_mark_is_dropped_at_the_start_and_only_there(text_of: Read, documents: str) -> None:
    assert text_of(b"\xef\xbb\xbfa\xef\xbb\xbfb", documents)[0]["text"] == "a\ufeffb"


def test_an_empty_file_is_an_empty_document_and_no_line(text_of: Read) -> None:
    assert [document["text"] for document in text_of(b"")] == [""]
    assert text_of(b"", "line") == text_of(b" \n\n", "paragraph") == []


def test_lines_are_documents_named_by_their_first_byte(text_of: Read) -> None:
    found = text_of(b"one\r\n\n  two \n \t\nthree", "line")
    assert [(document["id"], document["row"], document["text"]) for document in found] == [
        ("web/a.txt@0", 0, "one"),
        ("web/a.txt@6", 6, "  two "),
        ("web/a.txt@16", 16, "three"),
    ]


def test_paragraphs_lie_between_blank_lines_whatever_their_line_ends(text_of: Read) -> None:
    found = text_of(b"\n\na\nb\n\n \t\r\nc\r\nd\r\n\r\n\r\n e", "paragraph")
    assert [(document["row"], document["text"]) for document in found] == [(2, "a\nb"), (11, "c\r\nd"), (21, " e")]


@pytest.mark.parametrize(("data", "byte"), [(b"ok \xff", "byte 3 "), (b"\xef\xbb\xbfok \xff", "byte 6 ")])
def test_invalid_utf8_names_file_and_byte(text_of: Read, data: bytes, byte: str) -> None:
    with pytest.raises(SourceError, match=byte) as caught:
        text_of(data)
    assert "a.txt" in str(caught.value) and 'on_error="skip"' in str(caught.value)


def test_a_binary_file_is_refused_by_its_first_bad_byte(text_of: Read) -> None:
    noise = random.Random(0).randbytes(4096).replace(b"\0", b"\x80")
    with pytest.raises(SourceError, match=r"a\.txt is not UTF-8: byte \d+ is invalid"):
        text_of(noise)
    with pytest.raises(SourceError, match=r"a\.txt is not text: byte 4 is NUL"):
        text_of(b"\x7fELF\0\0\0")
    with pytest.raises(SourceError, match=r"a\.txt is not text: byte 1 is NUL, as in binary files and UTF-16"):
        text_of("hello".encode("utf-16-le"))


@pytest.mark.parametrize("documents", ["line", "paragraph"])
def test_a_bad_line_is_one_mishap_and_the_others_stay(text_of: Read, documents: str) -> None:
    mishaps = Mishaps("skip")
    found = text_of(b"good\n\nbad \xe9\n\nnul \0\n\nalso good", documents, mishaps=mishaps)
    assert [document["text"] for document in found] == ["good", "also good"]
    assert mishaps.skipped == 2 and "a.txt, line 3 is not UTF-8: byte 4" in mishaps.examples[0]


def test_another_encoding_is_read_by_its_name(text_of: Read) -> None:
    assert text_of("Grüße\n€".encode("cp1252"), encoding="cp1252")[0]["text"] == "Grüße\n€"
    assert [d["text"] for d in text_of("größer\nals".encode("utf-16"), "line", encoding="UTF16")] == ["größer", "als"]
    with pytest.raises(SourceError, match=r"is not ascii: byte 1 is invalid"):
        text_of("für\n".encode(), "line", encoding="ascii")


def test_a_file_over_the_limit_asks_what_a_document_is(text_of: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_DOCUMENT_BYTES", 100)
    with pytest.raises(SourceError, match=r"a\.txt is one document of more than .* `documents: paragraph`"):
        text_of(b"x" * 101)
    assert len(text_of(b"x" * 100)) == 1


@pytest.mark.parametrize("documents", ["line", "paragraph"])
def test_a_longer_document_than_the_limit_is_passed_over(
    text_of: Read, monkeypatch: pytest.MonkeyPatch, documents: str
) -> None:
    monkeypatch.setattr(base, "MAX_DOCUMENT_BYTES", 100)
    mishaps = Mishaps("skip")
    found = text_of(b"a\n\n" + b"x" * 200 + b"\n\n" + b"b\n\n" + b"y" * 300, documents, mishaps=mishaps)
    assert [document["text"] for document in found] == ["a", "b"]
    assert mishaps.skipped == 2 and "a.txt, line 3 is longer than" in mishaps.examples[0]


def test_a_paragraph_of_short_lines_has_the_same_limit(text_of: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_DOCUMENT_BYTES", 100)
    mishaps = Mishaps("skip")
    found = text_of(b"a\n\n" + b"xxxx\n" * 50 + b"\nb\n", "paragraph", mishaps=mishaps)
    assert [document["text"] for document in found] == ["a", "b"] and mishaps.skipped == 1


def test_skipped_files_are_counted_by_name_with_an_example(text_of: Read) -> None:
    mishaps = Mishaps("skip")
    assert text_of(b"\xff", mishaps=mishaps) == []
    assert mishaps.skipped == mishaps.by_file["a.txt"][0] == 1 and "a.txt" in mishaps.examples[0]


def test_a_file_that_went_away_is_named(tmp_path: Path, read: Read) -> None:
    with pytest.raises(SourceError, match=r"gone.txt cannot be read \(No such file"):
        read(tmp_path / "gone.txt")


def test_a_folder_named_like_a_file_is_named(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(SourceError, match=r"a.txt cannot be read \(Is a directory"):
        read(tmp_path / "a.txt")
