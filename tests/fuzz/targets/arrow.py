"""Arrow IPC, as stream and as file, plain and packed, with dictionaries and views."""

from __future__ import annotations

from pathlib import Path

from _sources import documents, raise_if, read_in_all_ways
from _tables import FIELDS
from _tables import arrow_files as seeds

from gristmill.sources.base import Format, Mishaps

__all__ = ["attempt", "seeds"]
CASES = (600, 20_000)


def attempt(data: bytes, folder: Path) -> None:
    format = Format(fields=FIELDS)
    rows, skipped = read_in_all_ways(data, folder / "a.arrow", format, cuts=(1,))
    if not skipped:
        assert documents(folder / "a.arrow", format, Mishaps("raise")) == rows
    raise_if(skipped)
