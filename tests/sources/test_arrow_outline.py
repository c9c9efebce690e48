"""Arrow files that are not mapped: the documents and errors of those that are, for few bytes and requests."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from far_place import SCHEME, Far, there
from gristmill.core.errors import SourceError
from gristmill.places import door
from gristmill.sources import arrow, arrow_outline, arrow_walk, tar_index
from gristmill.sources.arrow import cut_batches
from gristmill.sources.base import Format, InputFile, Mishaps
from gristmill.sources.units import cut_units, read_unit


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(door.PLACES, "far", Far)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(arrow_walk, "_SMALL", 1000)
    forget()


def forget() -> None:
    """Be as a process that is started now."""
    tar_index._recent.clear()
    arrow_outline._schema.cache_clear()
    Far.reads.clear()


TEXTS = [f"{row} " * (10 + 7 * row % 400) for row in range(300)]
Make = Callable[..., Any]


def legacy(*args: Any, options: pa.ipc.IpcWriteOptions, **more: Any) -> Any:
    """Streams from before 2019, without a mark in front of lengths."""
    old = pa.ipc.IpcWriteOptions(use_legacy_format=True, metadata_version=pa.ipc.MetadataVersion.V4)
    return pa.ipc.new_stream(*args, options=old, **more)


def write(
    path: Path, make: Make, rows: int = 10, compression: str | None = None, kind: pa.DataType | None = None
) -> Path:
    texts = pa.array(TEXTS)
    table = pa.table({"text": texts.cast(kind) if kind else texts, "n": pa.array(range(300))})
    with make(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def here(path: Path) -> InputFile:
    return InputFile("web", path, path.name, path.stat().st_size)


def documents(
    file: InputFile, unit_bytes: int, on_error: str = "raise", at: slice = slice(None)
) -> tuple[list[Any], list[str]]:
    """The documents of some of a file's units, each unit a list, and what was wrong."""
    format, mishaps = Format(fields=["n"]), Mishaps(on_error)
    found = []
    for unit in cut_units([file], {"web": format}, unit_bytes)[at]:
        batches = read_unit(unit, format, mishaps)
        found.append([(row["id"], row["row"], row["text"], row["n"]) for batch in batches for row in batch.to_pylist()])
    return found, [example.replace(SCHEME, "/") for example in mishaps.examples]


MAKES = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream, "legacy": legacy}


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("rows", [1, 10, 64, 300])
@pytest.mark.parametrize("unit", [700, 20_000, 1 << 30])
def test_the_units_of_a_file_elsewhere_are_those_of_one_that_is_mapped(
    tmp_path: Path, make: str, compression: str | None, rows: int, unit: int
) -> None:
    path = write(tmp_path / "a.arrow", MAKES[make], rows, compression)
    expected = documents(here(path), unit)
    assert documents(there(path), unit) == expected and sum(map(len, expected[0])) == 300
    forget()
    assert documents(there(path), unit) == expected  # by the outline that is kept


@pytest.mark.parametrize("make", MAKES)
def test_an_epoch_reads_the_file_and_little_else_and_a_unit_its_range(tmp_path: Path, make: str) -> None:
    path = write(tmp_path / "a.arrow", MAKES[make])
    size = path.stat().st_size
    units = len(documents(there(path), 20_000)[0])
    assert sum(count for _, count in Far.reads) < 1.3 * size + 30 * arrow_walk._HEAD_BYTES and units > 10
    Far.reads.clear()
    documents(there(path), 20_000)
    assert sum(count for _, count in Far.reads) < size and len(Far.reads) == units + 1  # and the schema
    Far.reads.clear()
    documents(file := there(path), 20_000, at=slice(5, 6))
    (_, schema), (start, count) = Far.reads
    assert schema < 1000 and count < 2 * 20_000 and abs(start - 5 * 20_000) < 20_000
    Far.reads.clear()
    cut_batches(file, Format(), size, 20_000)
    assert not Far.reads


def test_cutting_a_file_reads_a_header_of_each_record_batch(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", pa.ipc.new_stream)
    cut_batches(there(path), Format(), 1 << 20, 20_000)
    assert len(Far.reads) <= 31 + 1 and all(count <= arrow_walk._HEAD_BYTES for _, count in Far.reads)


def test_headers_of_an_ipc_file_are_found_by_its_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.arrow", pa.ipc.new_file)
    monkeypatch.setattr(arrow_walk, "_by_headers", None)
    cut_batches(there(path), Format(), 1 << 20, 20_000)
    starts = [start for start, _ in Far.reads]
    assert len(starts) == 2 + 30 and starts[1] == path.stat().st_size - arrow_walk._HEAD_BYTES


def test_small_record_batches_are_passed_over_many_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_walk, "_SMALL", 128 << 10)
    path = write(tmp_path / "a.arrow", pa.ipc.new_stream, rows=1)
    cut_batches(there(path), Format(), 1 << 20, 20_000)
    assert len(Far.reads) <= 3 and sum(count for _, count in Far.reads) < 1.1 * path.stat().st_size


def test_a_file_with_dictionaries_stays_whole_and_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", pa.ipc.new_stream, kind=pa.dictionary(pa.int32(), pa.string()))
    assert documents(there(path), 20_000) == documents(here(path), 20_000)
    assert sum(count for _, count in Far.reads) < path.stat().st_size + 2 * arrow_walk._HEAD_BYTES


@pytest.mark.parametrize("held", [0, 4 << 20])
@pytest.mark.parametrize("make", MAKES)
def test_a_damaged_file_elsewhere_has_the_documents_and_errors_of_one_that_is_mapped(
    tmp_path: Path, make: str, held: int, soak: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "_HELD_BYTES", held)
    whole, rng, refused = write(tmp_path / "a.arrow", MAKES[make], 40).read_bytes(), random.Random(make), 0
    for case in range(5000 if soak else 60):
        path = tmp_path / f"{case}.arrow"
        path.write_bytes(damaged(whole, rng))
        expected = documents(here(path), 20_000, "skip")
        assert documents(there(path), 20_000, "skip") == expected, case
        refused += bool(expected[1])
        path.unlink()
        forget()
    assert refused > 20


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Cut off, or with other bytes or numbers, most of them in a header."""
    if rng.random() < 0.2:
        return data[: rng.randrange(1, len(data))]
    heads = [at for at in range(0, len(data), 8) if data[at : at + 4] == b"\xff" * 4] or [0, 400]
    at = min(rng.choice([*heads, 0, len(data) - 300]) + rng.randrange(300), len(data) - 8)
    new = rng.choice(
        [struct.pack("<q", rng.choice([-1, 0, 1 << 40, -(1 << 63), len(data)])), rng.randbytes(1), bytes(4)]
    )
    return data[:at] + new + data[at + len(new) :]


def test_a_packed_record_batch_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.arrow", pa.ipc.new_stream, 100, "zstd")
    monkeypatch.setattr(arrow, "MAX_BATCH_BYTES", 50_000)
    for file in (here(path), there(path)):
        with pytest.raises(SourceError, match="has a record batch that unpacks to"):
            documents(file, 5_000)


def test_record_batches_that_are_too_large_to_be_held_are_copied_to_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.arrow", pa.ipc.new_stream, 100)
    monkeypatch.setattr(arrow, "MAX_BATCH_BYTES", 50_000)
    monkeypatch.setattr(arrow_outline.Outline, "messages", None)
    assert documents(there(path), 60_000) == documents(here(path), 60_000)


def outlines(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").rglob("*.starts"))


WRONG = {
    "no rows of numbers": lambda table: table.reshape(-1)[:-1],
    "beyond the file": lambda table: np.append(table[:-1], table[-1:] * [1, 1, 1000, 1], axis=0),
    "below 0": lambda table: -table,
    "gaps": lambda table: table[::2],
    "too large for sums": lambda table: table + (1 << 62),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_kept_outline_that_cannot_be_one_is_made_anew(
    tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.arrow", pa.ipc.new_stream)
    expected = documents(there(path), 20_000)
    replace_kept(tmp_path, WRONG[wrong])
    assert documents(there(path), 20_000) == expected


def replace_kept(tmp_path: Path, change: Callable[[Any], Any]) -> None:
    """Change what is kept of the one file that there is, as if it had been written so."""
    (kept,) = outlines(tmp_path)
    table = np.frombuffer(kept.read_bytes()[tar_index._SUM :], "<i8").reshape(-1, 4).copy()
    data = np.asarray(change(table)).astype("<i8").tobytes()
    kept.write_bytes(tar_index.xxhash.xxh3_128_digest(data) + data)
    forget()


LIES = {
    "other rows": lambda table: table + np.where(np.arange(len(table)) == 3, 1, 0)[:, None] * [0, 0, 0, 1],
    "two as one": lambda table: np.concatenate(
        [table[:2], [table[2] + [0, 0, *table[3][1:3].sum(keepdims=True), 0]], table[4:]]
    ),
    "another schema": lambda table: np.concatenate([[[0, table[1, 0] + table[1, 1:3].sum(), 0, 0]], table[2:]]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_kept_outline_that_lies_ends_in_an_error_and_is_forgotten(tmp_path: Path, lie: str) -> None:
    path = write(tmp_path / "a.arrow", pa.ipc.new_stream)
    expected = documents(there(path), 20_000)
    replace_kept(tmp_path, LIES[lie])
    with pytest.raises(SourceError, match=r"a.arrow changed while it was read. Run the same command again."):
        documents(there(path), 20_000)
    assert not outlines(tmp_path) and documents(there(path), 20_000) == expected


def test_outlines_and_what_is_kept_of_tars_never_meet(tmp_path: Path) -> None:
    file = there(write(tmp_path / "a.arrow", pa.ipc.new_stream))
    assert arrow_outline.outline_of(file) is not None
    assert list(tar_index.kept_index(file.place, lambda: [1, 2, 3])) == [1, 2, 3]
    assert len(arrow_outline.outline_of(file).bodies) == 30
