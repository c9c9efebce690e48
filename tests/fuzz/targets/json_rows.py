"""Blocks of JSON lines at once: what is read is what Python reads line by line, and nothing else is read."""

from __future__ import annotations

from pathlib import Path

from _lines import change_json as mutate
from _lines import lines as seeds

from gristmill.sources.base import Format
from gristmill.sources.json_rows import read_rows
from gristmill.sources.jsonl import parse_line

__all__ = ["attempt", "mutate", "seeds"]
CASES = (1_500, 150_000)
FORMAT = Format(fields=["n"])


def attempt(data: bytes, folder: Path) -> None:
    for block in (data, *data.split(b"\n")):
        if block and (found := read_rows(block, (FORMAT.text, FORMAT.id, *FORMAT.fields))):
            texts, ids, fields = (column.to_pylist() for column in found.columns)
            by_python = [parse_line(line, FORMAT, "") for line in block.split(b"\n") if line.strip()]
            assert [*map(list, zip(ids, texts, fields, strict=True))] == by_python
