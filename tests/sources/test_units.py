"""Cutting files into units: the same documents however they are cut, and units that depend on the files alone."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError, SourceError
from gristmill.sources import lines, units
from gristmill.sources.base import Format, InputFile, Mishaps, expand
from gristmill.sources.batches import BATCH_BYTES, BATCH_DOCUMENTS
from gristmill.sources.units import cut_units, first_of_each, read_unit

Row = dict[str, Any]
WORDS = ["the", "quick", "brown", "fox", "größe", "水", "\n", "\n\n", "", "jumps", "\r\n", "over\t", "lazy"]


def seekable_zstd(data: bytes, frame: int) -> bytes:
    """Frames and a seek table, as any writer of zstd's seekable format makes them."""
    pieces = [data[at : at + frame] for at in range(0, len(data), frame)]
    packed = [zstandard.compress(piece) for piece in pieces]
    table = b"".join(struct.pack("<II", len(pack), len(piece)) for pack, piece in zip(packed, pieces, strict=True))
    footer = struct.pack("<IBI", len(packed), 0, 0x8F92EAB1)
    return b"".join(packed) + struct.pack("<II", 0x184D2A5E, len(table) + len(footer)) + table + footer


def texts_of(seed: int, count: int) -> list[str]:
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randrange(1, 30))) for _ in range(count)]


def as_jsonl(texts: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts).encode()


def as_table(texts: list[str], write: Callable[[pa.Table, io.BytesIO], None]) -> bytes:
    out = io.BytesIO()
    write(pa.table({"text": texts}), out)
    return out.getvalue()


def _write_stream(table: pa.Table, out: io.BytesIO) -> None:
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)


def _write_ipc(table: pa.Table, out: io.BytesIO) -> None:
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=5)


FILES: dict[str, tuple[str, Format, Callable[[list[str]], bytes]]] = {
    "file": ("a.txt", Format(), lambda texts: "\n".join(texts).encode()),
    "line": ("a.txt", Format(documents="line"), lambda texts: "\n".join(texts).encode()),
    "paragraph": ("a.txt", Format(documents="paragraph"), lambda texts: "\n \n".join(texts).encode()),
    "jsonl": ("a.jsonl", Format(), as_jsonl),
    "jsonl.zst": ("a.jsonl.zst", Format(), lambda texts: seekable_zstd(as_jsonl(texts), 700)),
    "line.zst": ("a.txt.zst", Format(documents="line"), lambda texts: seekable_zstd("\n".join(texts).encode(), 99)),
    "utf-16": ("a.txt", Format(documents="line", encoding="utf-16"), lambda texts: "\n".join(texts).encode("utf-16")),
    "parquet": ("a.parquet", Format(), lambda texts: as_table(texts, lambda t, o: pq.write_table(t, o, 7))),
    "arrow stream": ("a.arrow", Format(), lambda texts: as_table(texts, _write_stream)),
    "arrow file": ("a.arrow", Format(), lambda texts: as_table(texts, _write_ipc)),
}
SPLIT = [kind for kind in FILES if kind not in ("file", "utf-16")]


def documents(path: Path, format: Format, unit_bytes: int) -> list[Row]:
    cut = cut_units([InputFile("web", path, path.name)], {"web": format}, unit_bytes)
    return [row for unit in cut for batch in read_unit(unit, format, Mishaps()) for row in batch.to_pylist()]


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 60), unit_bytes=st.integers(1, 5000), chunk=st.integers(1, 300))
def test_documents_are_the_same_however_files_are_cut(
    kind: str, seed: int, count: int, unit_bytes: int, chunk: int
) -> None:
    name, format, spell = FILES[kind]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        path = Path(folder) / name
        path.write_bytes(spell(texts_of(seed, count)))
        whole = documents(path, format, 1 << 30)
        patched.setattr(lines, "CHUNK_BYTES", chunk)
        assert documents(path, format, unit_bytes) == documents(path, format, 1 << 30) == whole


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow stream", "arrow file"])
def test_nothing_is_lost_or_added(tmp_path: Path, kind: str) -> None:
    name, format, spell = FILES[kind]
    texts = texts_of(1, 300)
    (tmp_path / name).write_bytes(spell(texts))
    assert [row["text"] for row in documents(tmp_path / name, format, 500)] == texts


@pytest.mark.parametrize("kind", SPLIT)
def test_large_files_are_cut_into_units_of_the_asked_size(tmp_path: Path, kind: str) -> None:
    name, format, spell = FILES[kind]
    (tmp_path / name).write_bytes(spell(texts_of(2, 2000)))
    size = (tmp_path / name).stat().st_size
    cut = cut_units(expand("web", [str(tmp_path)]), {"web": format}, 8000)
    assert size / 8000 * 0.5 <= len(cut) <= size / 8000 * 2 + 1
    assert sum(unit.size for unit in cut) == size


def test_small_files_share_units_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(10):
        (tmp_path / f"{i}.txt").write_text("x" * 30)
    files = expand("web", [str(tmp_path)])
    cut = cut_units(files, {"web": Format()}, 100)
    assert [len(unit.parts) for unit in cut] == [3, 3, 3, 1]
    assert [part.file for unit in cut for part in unit.parts] == files
    monkeypatch.setattr(units, "UNIT_FILES", 2)
    assert [len(unit.parts) for unit in cut_units(files, {"web": Format()}, 100)] == [2] * 5


def test_sources_do_not_share_units_and_units_are_small_when_pickled(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("text")
    files = [*expand("one", [str(tmp_path / "a.txt")]), *expand("two", [str(tmp_path / "b.txt")])]
    cut = cut_units(files, {"one": Format(), "two": Format()})
    assert [unit.source for unit in cut] == ["one", "two"]
    assert pickle.loads(pickle.dumps(cut)) == cut and len(pickle.dumps(cut[0])) < 1000


def test_batches_are_bounded_in_documents_and_bytes(tmp_path: Path) -> None:
    rows = [{"text": "s"}] * 20_000 + [{"text": "x" * (3 << 20)}] * 5 + [{"text": "y" * (BATCH_BYTES + 1)}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (unit,) = cut_units(expand("web", [str(tmp_path)]), {"web": Format()}, 1 << 30)
    batches = list(read_unit(unit, Format(), Mishaps()))
    assert sum(map(len, batches)) == len(rows) and max(map(len, batches)) <= BATCH_DOCUMENTS
    assert all(len(batch) == 1 or batch.column("text").nbytes < BATCH_BYTES + (1 << 17) for batch in batches)
    assert {field.name: str(field.type) for field in batches[0].schema} == {
        "id": "string", "source": "string", "path": "string", "row": "int64", "text": "large_string"}  # fmt: skip


@pytest.mark.parametrize("options", [{"format": "josnl"}, {"documents": "page"}, {"encoding": "utf-9"},
                                     {"fields": ("path",)}, {"fields": ("a", "a")}, {"text": "id"}])  # fmt: skip
def test_options_that_cannot_be_are_refused(options: Row) -> None:
    with pytest.raises(ConfigError):
        Format(**options)


def test_a_format_can_be_named_against_the_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text('{"text": "x"}\n')
    assert documents(tmp_path / "a.log", Format(format="jsonl"), 100)[0]["text"] == "x"
    (tmp_path / "a.JSON").write_text('{"text": "x"}\n')
    assert documents(tmp_path / "a.JSON", Format(), 100)[0]["text"] == "x"


@pytest.mark.parametrize(("mebibytes", "units", "largest"), [(1, 1, 1), (24, 6, 4), (256, 16, 16), (2048, 32, 64)])
def test_a_small_source_is_cut_into_about_16_units(tmp_path: Path, mebibytes: int, units: int, largest: int) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.truncate(mebibytes << 20)  # a hole: it takes no disk
    cut = cut_units([InputFile("web", path, path.name)], {"web": Format()})
    assert len(cut) == units and max(unit.size for unit in cut) <= largest << 20


FILE = InputFile("web", Path("a.jsonl"), "a.jsonl")


def batch(*ids: str) -> pa.RecordBatch:
    return pa.record_batch({"id": list(ids), "row": list(range(len(ids)))})


def test_ids_that_are_all_new_pass_as_they_are_and_are_remembered() -> None:
    seen: set[str] = set()
    given = batch("a", "b")
    assert first_of_each(given, seen, FILE, Mishaps()) is given and seen == {"a", "b"}


def test_the_first_of_each_stays_within_a_batch_and_across_batches() -> None:
    seen, mishaps = {"a"}, Mishaps("skip")
    kept = first_of_each(batch("a", "b", "b", "c"), seen, FILE, mishaps)
    assert kept.column("id").to_pylist() == ["b", "c"] and mishaps.skipped == 2 and seen == {"a", "b", "c"}
    assert mishaps.examples[0] == "a.jsonl (source 'web') has at 0 the id 'a' of an earlier document."


def test_a_repeated_id_ends_the_run_and_says_what_to_do() -> None:
    with pytest.raises(SourceError, match=r"has at 1 the id 'a' of an earlier document. Give each its own"):
        first_of_each(batch("a", "a"), set(), FILE, Mishaps())
