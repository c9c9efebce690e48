"""Samples that are found many at once: those that a walk member by member finds, and everything told of them."""

from __future__ import annotations

import io
import itertools
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.sources import tar, tar_samples, webdataset
from gristmill.sources.base import Format, InputFile, Mishap, Mishaps, Part
from gristmill.sources.streams import Stream
from gristmill.sources.tar import TarReader
from gristmill.sources.tar_samples import COLUMNS, Run, run_ahead
from gristmill.sources.units import read_from, read_part


def no_run(reader: TarReader, number: int, suffixes: Sequence[str], stop: int) -> Run:
    return Run(number, reader.at, suffixes, np.empty(0, np.uint8), np.empty((0, COLUMNS), np.int64))


def told(path: Path, format: Format, edges: list[int]) -> list[Any]:
    """Everything that reading a tar tells: whole, in parts, and where its samples begin."""
    file, found = InputFile("web", path, path.name), []
    starts = sorted({0, *edges})
    parts = [Part(file, start, stop) for start, stop in itertools.pairwise([*starts, None])]  # type: ignore[arg-type]
    for read in [read_part] if path.suffix == ".gz" else [read_part, *(lambda p, f, m: read_from(p, None, f, m),)]:
        kept: list[Mishap] = []
        mishaps = Mishaps("skip", kept.extend)
        for part in [Part(file)] if read is read_part else parts:
            found += [row for batch in read(part, format, mishaps) for row in batch.to_pylist()]
        mishaps.flush()
        # Ids that come again are told batch by batch, and batches may be others.
        found += [
            sorted((each.id, each.place or 0, each.what) for each in kept),
            mishaps.ignored.total(),
            mishaps.empty,
        ]
    return [*found, *([] if path.suffix == ".gz" else webdataset._starts(file))]


def compare(path: Path, format: Format, edges: list[int], buffer: int = 1 << 20) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tar, "_BUFFER_BYTES", buffer)
        fast = told(path, format, edges)
        patch.setattr(webdataset, "run_ahead", no_run)
        assert fast == told(path, format, edges)
    return fast


def add(out: tarfile.TarFile, name: str, data: bytes, kind: bytes = tarfile.REGTYPE, **headers: str) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname, member.pax_headers = len(data), kind, "", headers
    out.addfile(member, io.BytesIO(data))


def write(path: Path, members: Sequence[tuple[str, bytes]], format: int = tarfile.USTAR_FORMAT) -> Path:
    with tarfile.open(path, "w", format=format) as out:
        for name, data in members:
            add(out, name, data)
    return path


FOLDERS = st.sampled_from(
    ["", "", "", "./", "d/", "./d/e.f/", "../", "/", "d//", "d/../", "__x__/", "é/", "x" * 90 + "/"]
)
STEMS = st.sampled_from(["a", "b", "c", "a b", "", "__m__", "ü", "x" * 60, "A", "\x01"])
SUFFIXES = st.sampled_from([".txt", ".txt", ".txt", ".TXT", ".text", ".json", ".jpg", ".en.md", ".", "", ".tar.txt"])
DATA = st.sampled_from(
    [b"", b"one", b"two " * 300, "grüße".encode(), b"\xef\xbb\xbfmarked", b"\xef\xbb\xbf" * 2, b"\xef\xbb", b"\xff",
     b"\xbf", b"{}", b'{"id": "i", "n": 1, "text": "t"}', b"[", bytes(512), b"x" * 5000]
)  # fmt: skip
KINDS = st.sampled_from(
    [*[tarfile.REGTYPE] * 12, tarfile.AREGTYPE, tarfile.CONTTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE,
     tarfile.FIFOTYPE, b"V", b"Z"]
)  # fmt: skip
MEMBERS = st.lists(st.tuples(FOLDERS, STEMS, SUFFIXES, DATA, KINDS), max_size=12)
PLAIN = st.lists(
    st.tuples(st.just(""), st.sampled_from("abcdefgh"), st.sampled_from([".txt", ".jpg"]), DATA, st.just(b"0")),
    max_size=12,
)
# Blocks that become zeros.
HOLES = st.none() | st.tuples(st.integers(0, 20), st.sampled_from([1, 2, 3, 8, 20]))
# A byte of a header, and what it becomes; sums are mended or not.
DAMAGE = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 511), st.sampled_from([0, 32, 48, 55, 128, 255])), max_size=3
)


@settings(max_examples=150, deadline=None)
@given(
    PLAIN | MEMBERS,
    st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    DAMAGE,
    HOLES,
    st.booleans(),
    st.none() | st.integers(0, 20_000),
    st.lists(st.integers(0, 20_000), max_size=4),
    st.sampled_from(["text", "txt", "en.md", "json", "TXT"]),
    st.sampled_from([1024, 2500, 1 << 20]),
)
def test_runs_and_a_walk_member_by_member_tell_the_same(
    tmp_path_factory: Any, members: list[Any], format: int, damage: list[Any], hole: tuple[int, int] | None,
    mended: bool, end: int | None, edges: list[int], text: str, buffer: int,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    with tarfile.open(path, "w", format=format) as out:
        for folder, stem, suffix, data, kind in members:
            add(out, (folder + stem + suffix)[:100] or "x", data if kind in tarfile.REGULAR_TYPES else b"", kind)
    made = bytearray(path.read_bytes())
    for block, byte, value in damage:
        at = min(block * 512, len(made) - 512)
        made[at + byte] = value
        if mended:
            made[at + 148 : at + 156] = b" " * 8
            made[at + 148 : at + 156] = b"%06o\0 " % sum(made[at : at + 512])
    if hole:
        made[hole[0] * 512 : sum(hole) * 512] = bytes(hole[1] * 512)
    path.write_bytes(made[:end])
    compare(path, Format(text=text, fields=("n",)), edges, buffer)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_plain_samples_come_as_runs_and_odd_ones_between_them_do_not(
    tmp_path: Path, name: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    def noted(*arguments: Any) -> Run:
        run = run_ahead(*arguments)
        runs.append(len(run))
        return run

    monkeypatch.setattr(webdataset, "run_ahead", noted)
    with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w", format=tarfile.PAX_FORMAT) as out:
        for i in range(3000):
            add(out, f"{i:04d}.txt", b"some text", **({"comment": "odd"} if i in (1000, 1001) else {}))
    file = InputFile("web", tmp_path / name, name)
    rows = [row for batch in read_part(Part(file), Format(encoding=encoding), Mishaps()) for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == [f"web/{name}:{i:04d}" for i in range(3000)]
    assert [row["row"] for row in rows] == list(range(3000)) and {row["text"] for row in rows} == {"some text"}
    assert sum(runs) > 2990
    compare(tmp_path / name, Format(), [5000])


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
def test_what_is_held_when_a_packed_tar_breaks_off_is_kept(tmp_path: Path, format: int) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=format) as out:
        for i in range(400):
            add(out, f"{i:03d}.txt", rng.integers(97, 122, 6000, np.uint8).tobytes(), **({"comment": "x"} if i else {}))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])
    rows = [row for row in compare(path, Format(), []) if isinstance(row, dict)]
    assert 270 < len(rows) < 365


def test_a_text_over_the_limit_is_never_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill.sources.base.MAX_DOCUMENT_BYTES", 1000)
    path = write(
        tmp_path / "a.tar", [("1.txt", b"x" * 1001), ("2.txt", b"x" * 1000), ("3.jpg", b"x"), ("3.txt", b"three")]
    )
    found = compare(path, Format(), [])
    assert [row["row"] for row in found if isinstance(row, dict)] == [1, 2, 1536, 3072] and "longer than" in str(found)


def test_no_more_is_held_than_is_read_at_once_and_a_sample(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", [(f"{i}.txt", b"x" * 100_000) for i in range(100)])
    with Stream(InputFile("web", path, path.name)) as stream:
        reader, held = TarReader(stream), []
        for _ in range(40):
            held.append(len(reader.ahead()))
            if not len(run_ahead(reader, 0, ("txt", "json"), 1 << 40)) and not reader.more():
                break
    assert max(held) <= (1 << 20) + 101_000 and reader.at == 99 * (100_352 + 512)


def test_a_size_that_is_not_there_ends_a_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", [("1.txt", b"one"), ("2.txt", b"two"), ("3.txt", b"three")])
    data = bytearray(path.read_bytes())
    data[1024 + 124 : 1024 + 136] = b"77777777777\0"
    data[1024 + 148 : 1024 + 156] = b" " * 8
    data[1024 + 148 : 1024 + 156] = b"%06o\0 " % sum(data[1024 : 1024 + 512])
    path.write_bytes(data)
    assert [row["text"] for row in compare(path, Format(), [])[:1]] == ["one"]


def test_the_module_of_runs_imports_no_compiler() -> None:
    assert not hasattr(tar_samples, "walk")
