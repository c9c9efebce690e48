"""Blocks of JSON lines: columns of what compiled code reads, and the lines that it leaves."""

from __future__ import annotations

from gristmill.sources.json_blocks import scan_block


def test_values_become_columns_and_other_lines_are_left() -> None:
    block = b'{"text": "a\\n\\u00e9", "id": 7}\n\nnot json\n{"id": "x", "text": "b"}\n{"text": 5}\n'
    scanned = scan_block(block, ("text", "id"))
    texts, ids = scanned.columns()
    assert texts.to_pylist() == ["a\né", "b"] and ids.to_pylist() == ["7", "x"] and len(scanned) == 5
    assert [block[at:][:3] for at in scanned.read_lines.tolist()] == [b'{"t', b'{"i']
    assert [(number, line) for number, _, line in scanned.unread()] == [(2, b"not json"), (4, b'{"text": 5}')]


def test_a_value_that_is_not_there_is_null_and_one_below_dots_is_left() -> None:
    _, ids = scan_block(b'{"text": "a", "id": null}\n{"text": "b"}', ("text", "id")).columns()
    assert ids.to_pylist() == [None, None]
    assert len(list(scan_block(b'{"text": "a", "meta": {"id": 1}}\n', ("text", "meta.id")).unread())) == 1


def test_lines_that_are_not_utf8_are_left() -> None:
    scanned = scan_block(b'{"text": "a"}\n{"text": "\xff"}\n', ("text",))
    assert [number for number, *_ in scanned.unread()] == [1] and next(scanned.columns()).to_pylist() == ["a"]
