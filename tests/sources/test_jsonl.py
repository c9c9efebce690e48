"""JSON Lines: what is a document, and how a line that is none is reported."""

from __future__ import annotations

import json
import pydoc_data.topics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import SourceError
from gristmill.sources import base
from gristmill.sources.base import Format, Mishaps

Documents = list[dict[str, Any]]


@pytest.fixture(name="lines")
def _lines(tmp_path: Path, read: Callable[..., Documents]) -> Callable[..., Documents]:
    def of(*lines: bytes | dict[str, Any], format: Format | None = None, mishaps: Mishaps | None = None) -> Documents:
        path = tmp_path / "part.jsonl"
        path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
        return read(path, format, mishaps)

    return of


Lines = Callable[..., Documents]


def test_each_line_is_a_document_with_its_own_id(lines: Lines) -> None:
    found = lines({"id": "x", "text": "Grüße"}, {"text": "b", "id": 7, "url": "u"})
    assert found == [
        {"id": "x", "source": "web", "path": "part.jsonl", "row": 0, "text": "Grüße"},
        {"id": "7", "source": "web", "path": "part.jsonl", "row": 39, "text": "b"},
    ]


def test_a_missing_id_is_source_file_and_byte(lines: Lines) -> None:
    found = lines({"text": "a"}, b"", {"text": "b", "id": None})
    assert [document["id"] for document in found] == ["web/part.jsonl@0", "web/part.jsonl@15"]


def test_other_keys_can_hold_text_and_id(lines: Lines) -> None:
    found = lines({"body": "a", "uid": "u", "text": "no"}, format=Format("body", "uid"))
    assert [(document["id"], document["text"]) for document in found] == [("u", "a")]


def test_fields_are_carried_as_strings(lines: Lines) -> None:
    row = b'{"text": "a", "url": "\\u00fc", "n": 1.50, "b": true, "o": {"k": [1, "\\u00fc"]}, "z": null}'
    (found,) = lines(row, format=Format(fields=("url", "n", "b", "z", "missing")))
    assert [found[name] for name in ("url", "n", "b", "z", "missing")] == ["ü", "1.50", "true", None, None]
    assert lines(row, format=Format(fields=("o",)))[0]["o"] == '{"k":[1,"ü"]}'


def test_blank_lines_are_no_documents(lines: Lines) -> None:
    assert len(lines(b"", {"text": "a"}, b"  \r", b"\x0b", {"text": "b"}, b"")) == 2
    assert lines(b"") == []


def test_a_byte_order_mark_at_the_start_of_the_file_is_dropped(lines: Lines) -> None:
    assert lines(b'\xef\xbb\xbf{"text": "a"}')[0]["text"] == "a" and lines(b"\xef\xbb\xbf") == []


def test_the_last_line_needs_no_newline_and_crlf_is_fine(lines: Lines) -> None:
    assert [document["text"] for document in lines(b'{"text": "a"}\r', b'{"text": "b"}')] == ["a", "b"]


BAD_LINES = {
    "cut off": (b'{"text": "a', "is not JSON"),
    "no object": (b'["text"]', "is no JSON object"),
    "empty object": (b"{}", "it has no keys"),
    "missing key": (b'{"txt": "a"}', "has no text under 'text' .it has 'txt'.. Name the key by text=.KEY"),
    "null text": (b'{"text": null}', "but null"),
    "number as text": (b'{"text": 12}', "but 12"),
    "list as text": (b'{"text": ["a"]}', "but ..a.."),
    "list as id": (b'{"text": "a", "id": [1]}', "neither text nor a number"),
    "invalid UTF-8": (b'{"text": "\xff"}', "byte 10 of the line"),
    "another encoding": ('{"text": "für"}'.encode("latin-1"), "byte 11 of the line"),
    "lone surrogate": (rb'{"text": "ab\ud800"}', "surrogate pair at character 2"),
    "lone surrogate in the id": (rb'{"text": "a", "id": "\ud800"}', "The id of .* surrogate"),
    "deep nesting": (b"[" * 100_000, "is not JSON"),
    "huge number": (b'{"text": ' + b"9" * 5000 + b"}", "but 9{40}[.]"),
    "no colon": (b'{"text" "a"}', "is not JSON"),
    "two objects": (b'{"text": "a"} {"text": "b"}', "is not JSON"),
    "comma at the end": (b'{"text": "a",}', "is not JSON"),
    "control character": (b'{"text": "a\tb"}', "is not JSON"),
    "unknown escape": (rb'{"text": "\x41"}', "is not JSON"),
    "leading zero": (b'{"text": "a", "n": 01}', "is not JSON"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_names_file_and_line(lines: Lines, case: str) -> None:
    line, message = BAD_LINES[case]
    with pytest.raises(SourceError, match=message) as caught:
        lines({"text": "fine"}, b"", line, {"text": "fine"})
    assert "part.jsonl, line 3" in str(caught.value)


@pytest.mark.parametrize("case", sorted(BAD_LINES.keys() - {"missing key", "empty object"}))
def test_a_bad_line_says_that_it_can_be_skipped(lines: Lines, case: str) -> None:
    with pytest.raises(SourceError, match=r'Mend it, or say on_error="skip"\.$'):
        lines(BAD_LINES[case][0])


def test_skipping_keeps_the_good_lines_and_counts_the_bad(lines: Lines) -> None:
    mishaps = Mishaps("skip")
    bad = [line for line, _ in BAD_LINES.values()]
    found = lines({"text": "first"}, *bad, {"text": "last"}, mishaps=mishaps)
    assert [document["text"] for document in found] == ["first", "last"]
    assert mishaps.skipped == len(bad) and len(mishaps.examples) == 5


def test_a_later_part_of_a_file_names_the_byte(tmp_path: Path, read: Lines) -> None:
    good = b'{"text": "a"}\n'
    (tmp_path / "a.jsonl").write_bytes(good * 10 + b"bad\n")
    with pytest.raises(SourceError, match=r"a.jsonl, byte 140 is not JSON"):
        read(tmp_path / "a.jsonl", unit_bytes=50)


def test_a_line_over_the_limit_is_an_error_with_its_place(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_DOCUMENT_BYTES", 1 << 20)
    long = {"text": "x" * (10 << 20)}
    with pytest.raises(SourceError, match=r"part.jsonl, line 2 is longer than 1 MiB"):
        lines({"text": "a"}, long, {"text": "b"})
    mishaps = Mishaps("skip")
    found = lines({"text": "a"}, long, {"text": "b"}, long, mishaps=mishaps)
    assert [document["text"] for document in found] == ["a", "b"] and mishaps.skipped == 2


def test_repeated_ids_are_mishaps_and_the_first_stays(lines: Lines) -> None:
    rows = [{"id": id, "text": id} for id in ("a", "b", "a", "b", "c")]
    with pytest.raises(SourceError, match="has at 50 the id 'a' of an earlier document"):
        lines(*rows)
    mishaps = Mishaps("skip")
    assert [document["id"] for document in lines(*rows, mishaps=mishaps)] == ["a", "b", "c"]
    assert mishaps.skipped == 2


def test_surrogate_pairs_are_text(lines: Lines) -> None:
    assert lines(rb'{"text": "\ud83d\ude00"}')[0]["text"] == "😀"


def test_lines_that_only_python_takes_keep_their_place(lines: Lines) -> None:
    odd = rb'{"te\u0078t": "b", "x": NaN, "y": "\ud800"}'
    assert [document["text"] for document in lines({"text": "a"}, odd, {"text": "c"})] == ["a", "b", "c"]


@pytest.mark.parametrize("number", ["1e5", "100000.0", "-0", "1.50", "9" * 5000, "1E400", "12345678901234567890.0"])
def test_a_number_keeps_its_digits_whichever_parser_reads_it(lines: Lines, number: str) -> None:
    first, second = (b'{"text": "a", "id": %s}' % number.encode(), b'{"te\\u0078t": "a", "id": %s}' % number.encode())
    assert lines(first)[0]["id"] == lines(second)[0]["id"] == number


def test_a_value_inside_others_is_named_with_dots(lines: Lines) -> None:
    rows = [
        {"data": {"text": "a", "meta": {"id": 1}}},
        {"data": {"text": "b", "meta": {"id": 2}}, "data.text": "c"},
        {"data": {"text": "d"}, "data.meta.id": 3},
    ]
    found = lines(*rows, format=Format("data.text", "data.meta.id"))
    assert [(row["id"], row["text"]) for row in found] == [("1", "a"), ("2", "c"), ("3", "d")]
    found = lines({"text": "e", "data": {"meta": {"id": 4}}}, format=Format(id="data.meta.id"))
    assert found[0]["id"] == "4"
    with pytest.raises(SourceError, match=r"has no text under 'data.text' \(it has 'data'\)"):
        lines({"data": ["text"]}, format=Format("data.text"))


def test_a_field_that_python_cannot_spell_is_one_mishap(lines: Lines) -> None:
    mishaps = Mishaps("skip")
    digits, brackets = b"9" * 5000, b"[" * 900 + b"]" * 900
    rows = [b'{"text": "a", "f": [%s]}' % value for value in (b"1", digits, brackets, b"[" * 10**5)]
    found = lines(*rows, b'{"text": "b", "f": %s}' % digits, format=Format(fields=["f"]), mishaps=mishaps)
    assert [row["f"] for row in found if len(row["f"]) < 1000] == ["[1]"]
    assert found[-1]["f"] == digits.decode() and mishaps.skipped in (2, 3)


def test_keys_without_end_do_not_make_a_message_without_end(lines: Lines) -> None:
    with pytest.raises(SourceError, match=r"'k9' and 99,990 more\)") as caught:
        lines({f"k{i}": i for i in range(100_000)})
    assert len(str(caught.value)) < 1000


def test_real_text_comes_back_whole(lines: Lines) -> None:
    rows = [{"id": name, "text": text} for name, text in pydoc_data.topics.topics.items()]
    found = lines(*rows)
    assert [(document["id"], document["text"]) for document in found] == [(row["id"], row["text"]) for row in rows]
