"""Arrow IPC, as stream and as file, plain and packed, with dictionaries and views."""

from __future__ import annotations

from pathlib import Path

from _sources import documents, raise_if, read_in_all_ways
from _tables import FIELDS, arrow_files

from gristmill.sources.base import Format, Mishaps

CASES = (300, 20_000)
# Found here: a first message of no known kind, which Arrow takes for a schema and dies of (pyarrow 26).
CORPUS = Path(__file__).parents[1] / "corpus" / "arrow"


def seeds() -> list[bytes]:
    return [*arrow_files(), *(path.read_bytes() for path in sorted(CORPUS.glob("*.arrow")))]


def attempt(data: bytes, folder: Path) -> None:
    format = Format(fields=FIELDS)
    rows, skipped = read_in_all_ways(data, folder / "a.arrow", format, cuts=(1,))
    if not skipped:
        assert documents(folder / "a.arrow", format, Mishaps("raise")) == rows
    raise_if(skipped)
