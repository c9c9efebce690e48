"""A `.json` file that is one array: if Python reads it, ours are its elements."""

from __future__ import annotations

import json
from pathlib import Path

from _lines import change_json as mutate
from _sources import documents, raise_if, read_in_all_ways

from gristmill.sources.base import Format, Mishaps

__all__ = ["attempt", "mutate", "seeds"]
CASES = (400, 100_000)


def seeds() -> list[bytes]:
    rows = [{"text": f'a "{i}" ] }} , [ {{\n', "id": i, "n": [[i], {"b": "]"}]} for i in range(5)]
    return [json.dumps(rows).encode(), json.dumps(rows, indent=2).encode(), b"\xef\xbb\xbf [ ]", b"[1, 2", b'["a"]',
            b'[{"text": "a"}] x', b'[{"text": "a"}}', b'[{"text": "a\nb"}]', b"[" * 5000]  # fmt: skip


def attempt(data: bytes, folder: Path) -> None:
    rows, skipped = read_in_all_ways(data, folder / "a.json", Format())
    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, list) and all(isinstance(value, dict) for value in values):
        texts = [value["text"] for value in values if isinstance(value.get("text"), str)]
        assert skipped or [row["text"] for row in rows] == texts
    if not skipped:
        assert documents(folder / "a.json", Format(), Mishaps("raise")) == rows
    raise_if(skipped)
