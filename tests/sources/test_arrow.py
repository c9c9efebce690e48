"""Arrow IPC, as a file or as a stream: cut at record batches where no dictionary binds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gristmill.sources.arrow import cut_batches
from gristmill.sources.base import Format, InputFile, Part

Read = Callable[..., list[dict[str, Any]]]


def write(path: Path, make: Any, kind: pa.DataType | None = None) -> InputFile:
    texts = pa.array([f"{row} " * 100 for row in range(60)])
    table = pa.table({"text": texts.cast(kind) if kind else texts})
    with make(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    return InputFile("web", path, path.name)


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_files_and_streams_are_cut_and_read_alike(tmp_path: Path, read: Read, make: Any) -> None:
    file = write(tmp_path / "a.arrow", make)
    size = file.path.stat().st_size
    assert len(cut_batches(file, Format(), size, size // 3)) > 1
    assert read(file.path, unit_bytes=size // 3) == read(file.path)
    assert [row["row"] for row in read(file.path)] == list(range(60))


def test_a_file_with_a_dictionary_stays_whole(tmp_path: Path) -> None:
    file = write(tmp_path / "a.arrow", pa.ipc.new_stream, pa.dictionary(pa.int32(), pa.string()))
    assert cut_batches(file, Format(), 100, 10) == [Part(file, size=100)]
