"""JSON Lines: what is a document, and how a line that is none is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps, RawDocument
from gristmill.sources.jsonl import JsonlFields, read_jsonl


def read(
    folder: Path, *lines: bytes | dict[str, Any], fields: JsonlFields | None = None, mishaps: Mishaps | None = None
) -> list[RawDocument]:
    path = folder / "part.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return list(read_jsonl(InputFile("web", path, "part.jsonl"), fields or JsonlFields(), mishaps or Mishaps()))


def test_each_line_is_a_document_with_its_own_id(tmp_path: Path) -> None:
    found = read(tmp_path, {"id": "x", "text": "Grüße"}, {"text": "b", "id": 7, "url": "u"})
    assert found == [RawDocument("x", "part.jsonl", "Grüße"), RawDocument("7", "part.jsonl", "b")]


def test_a_missing_id_is_source_file_and_line(tmp_path: Path) -> None:
    found = read(tmp_path, {"text": "a"}, b"", {"text": "b", "id": None})
    assert [document.id for document in found] == ["web/part.jsonl:1", "web/part.jsonl:3"]


def test_other_keys_can_hold_text_and_id(tmp_path: Path) -> None:
    found = read(tmp_path, {"body": "a", "uid": "u", "text": "no"}, fields=JsonlFields("body", "uid"))
    assert [(document.id, document.text) for document in found] == [("u", "a")]


def test_blank_lines_are_no_documents(tmp_path: Path) -> None:
    assert len(read(tmp_path, b"", {"text": "a"}, b"  \r", {"text": "b"}, b"")) == 2


def test_a_byte_order_mark_at_the_start_of_the_file_is_dropped(tmp_path: Path) -> None:
    assert read(tmp_path, b'\xef\xbb\xbf{"text": "a"}')[0].text == "a"


def test_the_last_line_needs_no_newline_and_crlf_is_fine(tmp_path: Path) -> None:
    assert [document.text for document in read(tmp_path, b'{"text": "a"}\r', b'{"text": "b"}')] == ["a", "b"]


BAD_LINES = {
    "cut off": (b'{"text": "a', "is not JSON"),
    "no object": (b'["text"]', "is no JSON object"),
    "missing key": (b'{"txt": "a"}', "has no text under 'text' .it has 'txt'.. Name the key with --text-field"),
    "null text": (b'{"text": null}', "but null"),
    "number as text": (b'{"text": 12}', "but 12"),
    "list as text": (b'{"text": ["a"]}', "but ..a.."),
    "list as id": (b'{"text": "a", "id": [1]}', "neither text nor a number"),
    "invalid UTF-8": (b'{"text": "\xff"}', "byte 10 of the line"),
    "lone surrogate": (rb'{"text": "ab\ud800"}', "surrogate pair at character 2"),
    "lone surrogate in the id": (rb'{"text": "a", "id": "\ud800"}', "The id of .* surrogate"),
    "deep nesting": (b"[" * 100_000, "is not JSON"),
    "huge number": (b'{"text": ' + b"9" * 5000 + b"}", "is not JSON"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_names_file_and_line(tmp_path: Path, case: str) -> None:
    line, message = BAD_LINES[case]
    with pytest.raises(SourceError, match=message) as caught:
        read(tmp_path, {"text": "fine"}, b"", line)
    assert "part.jsonl, line 3" in str(caught.value)


def test_skipping_keeps_the_good_lines_and_counts_the_bad(tmp_path: Path) -> None:
    mishaps = Mishaps("skip")
    bad = [line for line, _ in BAD_LINES.values()]
    found = read(tmp_path, {"text": "first"}, *bad, {"text": "last"}, mishaps=mishaps)
    assert [document.text for document in found] == ["first", "last"]
    assert mishaps.skipped == len(bad) and len(mishaps.examples) == 5


def test_surrogate_pairs_are_text(tmp_path: Path) -> None:
    assert read(tmp_path, rb'{"text": "\ud83d\ude00"}')[0].text == "😀"
