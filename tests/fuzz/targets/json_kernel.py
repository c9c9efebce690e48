"""The compiled JSON parser against Python's: what it reads is what Python reads, and it reads nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _lines import change_json as mutate
from _lines import lines as seeds

from gristmill.sources.json_blocks import scan_block
from gristmill.sources.json_kernels import READ

__all__ = ["attempt", "mutate", "seeds"]
CASES = (3_000, 150_000)
KEYS = ("text", "id", "n")
__all__ = ["attempt", "mutate", "seeds"]


def attempt(data: bytes, folder: Path) -> None:
    scanned = scan_block(data, KEYS)
    columns = [column.to_pylist() for column in scanned.columns()]
    read = iter(zip(*columns, strict=True))
    for i in range(len(scanned)):
        line = data[scanned.lines[i] : scanned.lines[i + 1] - (i + 1 < len(scanned))]
        if scanned.states[i] == READ:
            _compare(line.rstrip(b"\n"), next(read))
    assert next(read, None) is None


def _compare(line: bytes, found: tuple[Any, ...]) -> None:
    try:
        value = json.loads(line.decode("utf-8"), parse_int=_Spelt, parse_float=_Spelt)
    except (ValueError, RecursionError):
        line.decode("utf-8")
        assert line.count(b"{") + line.count(b"[") > 1, "a flat line is read that Python refuses"
        return  # what is inside of brackets that nobody asked for is not checked
    text, id, n = (value.get(key) for key in KEYS)
    assert isinstance(text, str) and not isinstance(text, _Spelt) and not isinstance(id, dict | list)
    assert found == (text, _spell(id), _spell(n)), (found, value)


class _Spelt(str):
    """A number by its digits."""


def _spell(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
