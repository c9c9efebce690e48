"""Blocks of JSON lines at once: what is read is what Python reads, and nothing that Python refuses."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import SourceError
from gristmill.sources import json_rows
from gristmill.sources.base import Format
from gristmill.sources.json_rows import parse_json, read_rows
from gristmill.sources.jsonl import parse_line

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def rows(block: bytes, *keys: str) -> list[list[str | None]] | None:
    found = read_rows(block, ("text", "id", *keys))
    return None if found is None else [column.to_pylist() for column in found.columns]


def test_values_that_are_null_take_no_memory() -> None:
    block = b'{"text": "a", "id": null}\n' * 20_000
    rows(block)  # what is compiled and imported first
    tracemalloc.start()
    found = read_rows(block, ("text", "id"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found and found.columns[1].null_count == 20_000 and most < 10 * len(block)


@given(
    st.lists(
        st.fixed_dictionaries({"text": st.text()}, optional={"id": st.text(), "a": VALUES, "b": VALUES}), min_size=1
    ),
    st.booleans(),
    st.sampled_from([None, (", ", " :  ")]),
    st.sampled_from(["\n", "\r\n", " \n\n  "]),
)
def test_what_python_reads_is_read(
    lines: list[dict[str, Any]], ascii_only: bool, separators: tuple[str, str] | None, between: str
) -> None:
    spelt = [json.dumps(line, ensure_ascii=ascii_only, separators=separators) for line in lines]
    read = rows("".join(line + between for line in spelt).encode(), "a")
    carried = [None if line.get("a") is None else line["a"] if isinstance(line["a"], str) else
               json.dumps(line["a"], ensure_ascii=False, separators=(",", ":")) for line in lines]  # fmt: skip
    assert read == [[line["text"] for line in lines], [line.get("id") for line in lines], carried]


@given(st.binary(max_size=60), st.integers(0, 80), st.integers(0, 60))
def test_nothing_is_read_that_python_refuses_or_reads_otherwise(noise: bytes, at: int, cut: int) -> None:
    lines = b'{"id": "i", "a": [1.5e3, {"b": null}], "text": "t\\n\\u00e9"}\n{"text": "b"}\n{"text": "c", "id": "j"}'
    block = lines[:at] + noise + lines[at + cut :]
    if block and (read := rows(block, "a")) is not None:
        lines_by_python = [parse_line(line, Format(fields=["a"]), "") for line in block.split(b"\n") if line.strip()]
        assert [[id, text, a] for text, id, a in zip(*read, strict=True)] == lines_by_python


ESCAPES = ["\\ud83d", "\\ude00", "\\uD83D\\uDE00", "\\u00e9", "\\u0000", "\\u0041", "\\uffff", "\\u07FF", "\\u0800",
           "x", "xu1234", "\\n", "\\t", "\\r", "\\b", "\\f", "\\/", '\\"', "\\\\", "\\\\u0041", "é", "\U0001f600",
           "plain text", "\\q", "\\u12", "\\U0041", "\t"]  # fmt: skip


# Texts are looked at by 64 bytes: plain stretches of any length before and after bring all to the edges of these.
STRETCHES = st.sampled_from(ESCAPES) | st.integers(0, 140).map("x".__mul__)


@given(st.lists(st.lists(STRETCHES, max_size=12).map("".join), min_size=1, max_size=4))
def test_escapes_are_what_python_takes_them_for_or_left_to_it(texts: list[str]) -> None:
    lines = [f'{{"id": "i", "text": "{text}"}}'.encode() for text in texts]
    read = rows(b"\n".join(lines))
    try:
        by_python = [parse_line(line, Format(), "")[1] for line in lines]
    except SourceError:
        by_python = None
    assert (read and read[0]) == by_python


@pytest.mark.parametrize("block", [
    b'{"text":\n"a"}\n{"text": "b"} {"text": "c"}', b'{"text": "a"} {"text": "b"}',
    b'{"text": "a", "x":\n{"text": "b"}}',
    b'{"text": "a"}\n{"text": "b"}}', b'{"text": "a"}\n7', b'{"text": "a", "x": "\xff"}', b'{"text": "a", "id": [1]}',
    b'{"text": "a", "id": 0}\n{"text": "b", "id": -0, "x": {}, "f": {}}', b'{"text": 5}', b'{"text": "a", "x": NaN}',
])  # fmt: skip
def test_what_needs_a_second_look_is_left(block: bytes) -> None:
    assert rows(block, "f") is None


def test_numbers_keep_their_digits_and_nested_values_are_compact() -> None:
    block = (
        b'{"text": "a", "id": 1.50, "f": {"k": [1, 2.0]}}\n{"text": "b", "id": 0, "f": true}\n{"text": "c", "id": "x"}'
    )
    assert rows(block, "f") == [["a", "b", "c"], ["1.50", "0", "x"], ['{"k":[1,2.0]}', "true", None]]


def test_values_are_found_as_python_finds_them_whatever_stands_around_them() -> None:
    lines = [
        b'{"id": -0, "text": "minus nothing", "x": -0.5E+10}',
        b'{"text": "repeated", "id": "a", "x": {"id": "inner", "text": [1, {"id": "b"}]}, "id": null}',
        b'{"text":"\\u00e9\\"\\\\","id":123456789012345678901234567890,"x":[[],{},[{}],"]}",true,false,null]}',
        b' { "text" : "spaced" , "id" : false } ',
    ]
    read = rows(b"\n".join(lines))
    assert read is not None
    assert [[id, text] for text, id in zip(*read, strict=True)] == [parse_line(line, Format(), "") for line in lines]


@pytest.mark.parametrize("line", [
    b'{"text": "a",}', b'{"text": "a" "id": 1}', b'{"text": "a", "x": [1,]}', b'{"text": "a", "x": [1}}',
    b'{"text": "a"',
    b'{"text": "a", "x": 01}', b'{"text": "a", "x": 1.}', b'{"text": "a", "x": .5}', b'{"text": "a", "x": 1e}',
    b'{"text": "a", "x": -}', b'{"text": "a", "x": tru}', b'{"text": "a", "x": nulll}', b'{"text": "\x01"}',
    b'{"text": "a", "x": "\\x"}', b'{"text": "a", "x": "\\u12g4"}', b'{"text": "a", x: 1}', b'{"text" "a"}', b"{}}",
    b'{"text": "a", "x": ' + b"[" * 2000 + b"]" * 2000 + b"}", b'{"text": "a"}]', b'[{"text": "a"}]', b"{", b'{"text":',
    b'{"text": "a", "x": {]}', b'{"text": "a", "x": {1: 2}}', b'{,"text": "a"}', b'{"text": "a", "x": [,1]}',
])  # fmt: skip
def test_lines_that_are_no_json_are_left(line: bytes) -> None:
    assert rows(line) is None


@pytest.mark.parametrize("keys", [("meta.id",), ('"',), ("\\",), ("id",), ("",)])
def test_keys_inside_of_others_odd_ones_and_repeated_ones_are_left_to_python(keys: tuple[str]) -> None:
    assert rows(b'{"text": "a"}', *keys) is None


def test_a_line_of_values_without_end_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "_MOST_VALUES", 100)
    monkeypatch.setattr(json_rows, "_LONG", 100)
    line = b'{"text": "a", "id": "b", "x": [%s]}' % b",".join([b"1"] * 200)
    assert rows(line) is None
    with pytest.raises(ValueError, match="more than 100 values"):
        parse_json(line)


def test_carried_values_beyond_what_their_column_holds_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    block = b"".join(b'{"text": "t", "id": "%d", "a": "four"}\n' % i for i in range(5))
    expected = rows(block, "a")
    monkeypatch.setattr(json_rows, "_MOST_BYTES", 19)
    asked: list[bytes] = []
    monkeypatch.setattr(json_rows, "_decoded", lambda block, *others: asked.append(block))
    assert expected is not None and rows(block, "a") is None and asked == [block]
    monkeypatch.setattr(json_rows, "_MOST_BYTES", 20)
    assert rows(block, "a") == expected
