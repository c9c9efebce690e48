"""Files of evaluations to decontaminate against: JSON lines, arrays, and texts."""

from __future__ import annotations

from pathlib import Path

from _lines import change_json as mutate
from _lines import lines

from gristmill.curate.decontaminate import DecontaminateOptions
from gristmill.sources.base import InputFile
from gristmill.stages.evaluations import _items

__all__ = ["attempt", "mutate", "seeds"]
CASES = (500, 100_000)
NAMES = ("a.jsonl", "a.json", "a.txt")


def seeds() -> list[bytes]:
    return [
        *lines(),
        b'[{"q": "a", "text": ["b", {"c": "d"}]}, 7, null]',
        b"[" * 2000,
        b'{"text": "\\ud800"}',
        b'7\n"x"\n[]',
        b"caf\xe9",
    ]


def attempt(data: bytes, folder: Path) -> None:
    path = folder / NAMES[len(data) % len(NAMES)]
    path.write_bytes(data)
    fields = ("text",) if len(data) % 2 else ()
    options = DecontaminateOptions([path.name], fields=fields)
    for name, texts in _items(InputFile("evaluations", path, path.name), options):
        assert name.startswith(path.name) and all(text.encode() is not None for text in texts)
