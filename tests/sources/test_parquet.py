"""Parquet: cut at row groups, read column by column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.sources.base import Format, InputFile, Part
from gristmill.sources.parquet import cut_row_groups

Read = Callable[..., list[dict[str, Any]]]


def write(path: Path, rows: int = 60) -> InputFile:
    texts = [f"{row} " * 200 for row in range(rows)]
    pq.write_table(pa.table({"text": texts, "other": list(range(rows))}), path, row_group_size=10, compression="none")
    return InputFile("web", path, path.name)


def test_parts_are_runs_of_row_groups(tmp_path: Path, read: Read) -> None:
    file = write(tmp_path / "a.parquet")
    size = file.path.stat().st_size
    parts = cut_row_groups(file, Format(), size, size // 3)
    assert parts[0].start == 0 and 2 <= len(parts) <= 4 and sum(part.size for part in parts) == size
    assert [part.stop for part in parts] == [*(part.start for part in parts[1:]), None]
    whole, cut = read(file.path), read(file.path, unit_bytes=size // 3)
    assert cut == whole and [row["row"] for row in whole] == list(range(60))


def test_a_packed_file_stays_whole(tmp_path: Path) -> None:
    file = InputFile("web", tmp_path / "a.parquet.gz", "a.parquet.gz")
    assert cut_row_groups(file, Format(), 100, 10) == [Part(file, size=100)]
