"""Parquet: cut at row groups, read column by column."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from far_place import Far, there
from gristmill.core.errors import SourceError
from gristmill.places import door
from gristmill.sources import parquet
from gristmill.sources.base import Format, InputFile, Mishaps, Part
from gristmill.sources.parquet import cut_row_groups
from gristmill.sources.streams import Stream
from gristmill.sources.units import read_part

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


def test_a_packed_file_of_something_else_is_refused_before_it_is_unpacked(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(bytes(40 << 20)))
    taken, read_chunk = list[int](), Stream.read
    monkeypatch.setattr(Stream, "read", lambda *given: taken.append(1) or read_chunk(*given))
    with pytest.raises(SourceError, match=r"a.parquet.gz does not begin with PAR1 once it is unpacked"):
        read(tmp_path / "a.parquet.gz")
    assert len(taken) == 1


def test_the_footer_of_a_file_elsewhere_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(door.PLACES, "far", Far)
    files = [there(write(tmp_path / f"{i}.parquet").path) for i in range(3)]
    monkeypatch.setattr(parquet, "_FOOTER_BYTES", 2 * pq.read_metadata(tmp_path / "0.parquet").serialized_size + 99)
    monkeypatch.setattr(parquet, "_footers", {})
    parts = [part for file in files for part in cut_row_groups(file, Format(), 1 << 20, 20_000)]
    assert len(parquet._footers) == 2
    ends = {file.name: file.size for file in files}
    for part, footers in ((parts[-1], 0), (parts[-2], 0), (parts[0], 1), (parts[1], 0), (parts[-1], 0)):
        Far.reads.clear()
        assert sum(len(batch) for batch in read_part(part, Format(), Mishaps()))
        assert sum(start + size == ends[part.file.name] for start, size in Far.reads) == footers, part


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InputFile:
    """A file elsewhere of four row groups, of 400 KB each, and nothing remembered of it."""
    monkeypatch.setitem(door.PLACES, "far", Far)
    monkeypatch.setattr(parquet, "_footers", {})
    texts = [np.random.default_rng(row).bytes(1000).hex() for row in range(800)]
    columns = {"id": [f"d{row}" for row in range(800)], "much": texts[::-1], "text": texts}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=200, use_dictionary=["id"])
    return there(tmp_path / "a.parquet")


def of_part(part: Part) -> list[dict[str, Any]]:
    return [row for batch in read_part(part, Format(), Mishaps()) for row in batch.select(["id", "text"]).to_pylist()]


def test_to_cut_a_file_elsewhere_fetches_no_rows(far: InputFile) -> None:
    Far.reads.clear()
    parts = cut_row_groups(far, Format(), far.size or 0, 100_000)
    assert len(parts) == 4
    assert all(start >= (far.size or 0) - (1 << 16) for start, _ in Far.reads) and len(Far.reads) <= 2


@pytest.mark.parametrize("most", [16 << 20, 1000])
def test_of_a_row_group_elsewhere_the_columns_are_fetched_at_once_unless_they_are_large(
    far: InputFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(parquet, "_HELD_BYTES", most)
    here = InputFile("web", tmp_path / "a.parquet", "a.parquet")
    for part in cut_row_groups(far, Format(), far.size or 0, 100_000):
        Far.reads.clear()
        assert of_part(part) == of_part(replace(part, file=here))
        fetched = sum(size for _, size in Far.reads)
        if most > 1000:
            assert len(Far.reads) == 2 and fetched < 420_000  # the texts, and the ids, which lie far from them
        else:
            assert len(Far.reads) > 2 and max(size for _, size in Far.reads) <= parquet._BUFFER_BYTES


def test_who_looks_for_a_header_at_the_end_of_a_column_asks_for_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(door.PLACES, "far", Far)
    monkeypatch.setattr(parquet, "_footers", {})
    # A header has the least and the largest value, and the pages behind the last one a few bytes.
    kinds = ["one" * 2000, "two" * 2000] * 50
    columns = {"id": [f"d{row}" for row in range(100)], "text": ["some text " * 50] * 100, "kind": kinds, "last": kinds}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=50)
    format = Format(fields=("kind",))
    for part in cut_row_groups(there(tmp_path / "a.parquet"), format, 1 << 20, 100):
        Far.reads.clear()
        assert sum(len(batch) for batch in read_part(part, format, Mishaps())) == 50 and len(Far.reads) == 1


def test_a_file_elsewhere_that_is_replaced_or_cut_off_is_an_error(far: InputFile, tmp_path: Path) -> None:
    part, *_ = cut_row_groups(far, Format(), far.size or 0, 100_000)
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:1000])
    with pytest.raises(SourceError, match="1,000"):
        of_part(part)
