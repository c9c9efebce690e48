"""Files that change while a stream reads them: an error that names the file, never other documents in silence."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm

ROWS = [{"id": f"{i}", "text": f"Document {i} was here when the stream began."} for i in range(60)]


def as_jsonl(path: Path) -> Path:
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path.with_suffix(".jsonl")


def as_tar(path: Path) -> Path:
    with gm.ShardWriter(path.with_name("%d.tar")) as shards:
        for row in ROWS:
            shards.write({"__key__": row["id"], "txt": row["text"]})
    return path.with_name("0.tar")


def as_parquet(path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def as_arrow(path: Path) -> Path:
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as file:
        file.write_table(table)
    return path.with_suffix(".arrow")


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes())


def shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("change", [longer, shorter, empty])
@pytest.mark.parametrize("write", [as_jsonl, as_tar, as_parquet, as_arrow])
def test_a_file_that_changes_while_a_stream_reads_it_is_refused(
    tmp_path: Path, write: Callable[[Path], Path], change: Callable[[Path], None]
) -> None:
    path = write(tmp_path / "rows")
    batches: Any = gm.stream(str(path)).tokenize("byte").pad(64).batch(2, seed=0)
    with batches.loader(threads=0) as loader:
        served = iter(loader)
        next(served)
        before = path.stat().st_size
        change(path)
        with pytest.raises(gm.SourceError, match=f"had {before:,} bytes when the stream began and now has"):
            list(itertools.islice(served, 200))


def test_with_skip_it_is_counted_and_named(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    as_jsonl(tmp_path / "a" / "rows")
    later = as_jsonl(tmp_path / "b" / "rows")
    stream = gm.stream(str(tmp_path), on_error="skip").tokenize("byte").pad(64)
    loader = stream.batch(1, shuffle=False, epochs=1).loader(threads=0)
    served = iter(loader)
    next(served)
    longer(later)
    assert 1 + sum(1 for _ in served) == len(ROWS)
    assert loader.stats()["unreadable"] == 1 and "now has" in loader.stats()["unreadable_first"][0]
