"""JSON Lines as files, against Python's json line by line, with ids, fields and values inside of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _lines import change_json as mutate
from _lines import lines as seeds
from _sources import raise_if, read_in_all_ways

from gristmill.sources.base import Format

__all__ = ["attempt", "mutate", "seeds"]
CASES = (250, 100_000)
FORMATS = (Format(fields=["n"]), Format("text", "n"), Format("z.text", "id", ["n"]))


def attempt(data: bytes, folder: Path) -> None:
    format = FORMATS[len(data) % len(FORMATS)]
    rows, skipped = read_in_all_ways(data, folder / "a.jsonl", format)
    if format is FORMATS[0]:
        texts = {row["row"]: row["text"] for row in rows}
        at = 0
        for line in data.split(b"\n"):
            if (text := _text(line)) is not None and at in texts:
                assert texts[at] == text
            at += len(line) + 1
    raise_if(skipped)


def _text(line: bytes) -> str | None:
    try:
        value: Any = json.loads(line.decode("utf-8"))
        return str(value["text"])
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        return None
