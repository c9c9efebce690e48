"""Reading a file as a source, in as many units as one likes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.sources.base import Format, InputFile, Mishaps
from gristmill.sources.units import cut_units, read_unit

Read = Callable[..., list[dict[str, Any]]]


def read_file(
    path: Path, format: Format | None = None, mishaps: Mishaps | None = None, unit_bytes: int = 1 << 30
) -> list[dict[str, Any]]:
    """All documents of a file of the source `web`, as dicts."""
    format = format or Format()
    units = cut_units([InputFile("web", path, path.name)], {"web": format}, unit_bytes)
    mishaps = mishaps or Mishaps()
    return [document for unit in units for batch in read_unit(unit, format, mishaps) for document in batch.to_pylist()]


@pytest.fixture(name="read")
def _read() -> Read:
    return read_file
