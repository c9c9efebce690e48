"""A damaged input file, read as a source is: with errors passed over, with errors raised, and cut into small units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill.core.errors import SourceError
from gristmill.sources.base import Format, InputFile, Mishap, Mishaps
from gristmill.sources.units import cut_units, read_unit

Rows = list[dict[str, Any]]
WHOLE = 1 << 40


def documents(path: Path, format: Format, mishaps: Mishaps, unit_bytes: int = WHOLE) -> Rows:
    """All documents of a file."""
    units = cut_units([InputFile("web", path, path.name)], {"web": format}, unit_bytes)
    return [row for unit in units for batch in read_unit(unit, format, mishaps) for row in batch.to_pylist()]


def read_in_all_ways(data: bytes, path: Path, format: Format, cuts: Sequence[int] = (64, 700)) -> tuple[Rows, int]:
    """The documents of a file of these bytes, and the mishaps; the SourceError of a file that is not whole comes last.

    What is passed over is told with a text for the account, no id comes twice in a unit, and a file without mishaps
    has the same documents however it is cut.
    """
    path.write_bytes(data)
    kept: list[Mishap] = []
    mishaps = Mishaps("skip", kept.extend)
    rows = documents(path, format, mishaps)
    mishaps.flush()
    assert len(kept) == mishaps.skipped and all((mishap.what + mishap.id).encode() for mishap in kept)
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row[name] is None or row[name].encode() is not None for row in rows for name in row if name != "row")
    for unit_bytes in cuts:
        cut = Mishaps("skip")
        again = documents(path, format, cut, unit_bytes)
        assert mishaps.skipped or cut.skipped or again == rows, "another cut has other documents"
    return rows, mishaps.skipped


def raise_if(skipped: int) -> None:
    """Count a case as refused."""
    if skipped:
        raise SourceError("There were mishaps.")
