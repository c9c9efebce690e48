"""Compressed files: every packing reads as the plain file, and what is damaged or mislabelled is named."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from gristmill.core.errors import SourceError
from gristmill.sources.base import Format, InputFile, Mishaps
from gristmill.sources.streams import CHUNK_BYTES, Stream
from nobody import AsNobody

Read = Callable[..., list[dict[str, Any]]]

PACKERS = {".gz": gzip.compress, ".zst": zstandard.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
LINES = b"".join(b'{"text": "line %d %s"}\n' % (i, os.urandom(20).hex().encode()) for i in range(5000))


@pytest.fixture(params=PACKERS)
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_packed_file_gives_the_documents_of_the_plain_one(tmp_path: Path, read: Read, suffix: str) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / f"a.jsonl{suffix}"
    plain.write_bytes(LINES)
    packed.write_bytes(PACKERS[suffix](LINES))
    found, wanted = read(packed), read(plain)
    assert [(row["row"], row["text"]) for row in found] == [(row["row"], row["text"]) for row in wanted]
    assert found[0]["id"] == f"web/a.jsonl{suffix}@0"


def test_several_members_and_frames_are_one_file(tmp_path: Path, read: Read, suffix: str) -> None:
    pack = PACKERS[suffix]
    (tmp_path / f"a.txt{suffix}").write_bytes(pack(b"one ") + pack(b"") + pack(b"two"))
    assert read(tmp_path / f"a.txt{suffix}")[0]["text"] == "one two"


@pytest.mark.parametrize("harm", ["cut off", "overwritten"])
def test_damage_is_named_and_what_came_before_stays(tmp_path: Path, read: Read, suffix: str, harm: str) -> None:
    data = bytearray(PACKERS[suffix](LINES) + PACKERS[suffix](LINES))
    path = tmp_path / f"a.jsonl{suffix}"
    middle = len(data) * 3 // 4
    path.write_bytes(data[:middle] if harm == "cut off" else data[:middle] + bytes(2000) + data[middle + 2000 :])
    mishaps = Mishaps("skip")
    found = read(path, None, mishaps)
    assert len(found) > 4900 and found[0]["text"].startswith("line 0 ")
    if harm == "cut off":
        assert mishaps.skipped == 1
        with pytest.raises(SourceError, match=r"a\.jsonl\.\w+ is damaged or cut off after [\d,]+ unpacked bytes"):
            read(path)
    else:  # overwritten bytes may unpack to garbage before they are found out
        assert mishaps.skipped >= 1
        with pytest.raises(SourceError, match=r"a\.jsonl\.\w+"):
            read(path)


def test_of_a_gzip_file_that_breaks_off_every_byte_before_is_read(tmp_path: Path, read: Read) -> None:
    data = gzip.compress(LINES)[:-3000]
    (tmp_path / "a.jsonl.gz").write_bytes(data)
    whole = zlib.decompressobj(31).decompress(data)
    mishaps = Mishaps("skip")
    found = read(tmp_path / "a.jsonl.gz", None, mishaps)
    assert len(found) == whole.count(b"\n") > 1000 and mishaps.skipped == 1
    with pytest.raises(SourceError, match=f"cut off after {len(whole):,} unpacked bytes"):
        read(tmp_path / "a.jsonl.gz")


def test_a_name_that_does_not_fit_the_content_is_told(tmp_path: Path, read: Read, suffix: str) -> None:
    (tmp_path / f"a.txt{suffix}").write_bytes(b"plain text")
    with pytest.raises(SourceError, match=r"by its name but holds something else"):
        read(tmp_path / f"a.txt{suffix}")
    (tmp_path / "b.txt").write_bytes(PACKERS[suffix](b"text"))
    with pytest.raises(SourceError, match=r"b.txt is plain by its name but holds (gzip|zstd|bz2|xz)"):
        read(tmp_path / "b.txt")


def test_bytes_after_the_last_stream_are_not_ignored(tmp_path: Path, read: Read, suffix: str) -> None:
    (tmp_path / f"a.jsonl{suffix}").write_bytes(PACKERS[suffix](LINES) + b"rubbish")
    with pytest.raises(SourceError, match="is damaged or cut off"):
        read(tmp_path / f"a.jsonl{suffix}")


def test_the_padding_of_xz_is_no_damage(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"one ") + bytes(8) + lzma.compress(b"two") + bytes(4))
    assert read(tmp_path / "a.txt.xz")[0]["text"] == "one two"


@pytest.mark.parametrize(("head", "kind"), [(b"PK\x03\x04", "zip"), (b"PAR1", "Parquet"), (b"ARROW1\0\0", "Arrow")])
def test_other_files_named_as_text_are_told(tmp_path: Path, read: Read, head: bytes, kind: str) -> None:
    (tmp_path / "a.txt").write_bytes(head + b"rest")
    with pytest.raises(SourceError, match=f"a.txt is plain by its name but holds {kind}. Give it its right suffix"):
        read(tmp_path / "a.txt")


@pytest.mark.parametrize("kind", [".txt", ".jsonl", ".json", ".parquet", ".arrow", ".tar"])
def test_a_file_of_no_bytes_is_no_error_but_named(tmp_path: Path, read: Read, suffix: str, kind: str) -> None:
    mishaps = Mishaps()
    for name in (f"a{kind}{suffix}", f"a{kind}"):
        (tmp_path / name).write_bytes(b"")
        assert [row["text"] for row in read(tmp_path / name, None, mishaps)] == [""] * (name == "a.txt")
    assert mishaps.empty == [f"a{kind}{suffix}", f"a{kind}"] and not mishaps.skipped


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_packed_file_that_becomes_shorter_while_it_is_read_is_told(tmp_path: Path, suffix: str) -> None:
    pack = gzip.compress if suffix == "gz" else zstandard.compress
    for after in (b"", pack(b"short")):
        (tmp_path / f"a.{suffix}").write_bytes(pack(os.urandom(3 * CHUNK_BYTES)))
        with Stream(InputFile("web", tmp_path / f"a.{suffix}", "a")) as stream:
            stream.read()
            with open(tmp_path / f"a.{suffix}", "r+b") as file:
                file.truncate(0)
                file.write(after)
            with pytest.raises(SourceError, match="damaged or cut off"):
                sum(len(data) for data in iter(stream.read, b""))


def test_a_file_that_may_not_be_read_is_named(open_folder: Path, as_nobody: AsNobody, read: Read) -> None:
    (open_folder / "a.txt").write_bytes(b"a")
    (open_folder / "a.txt").chmod(0)
    with as_nobody(), pytest.raises(SourceError, match=r"a.txt cannot be read \(Permission denied"):
        read(open_folder / "a.txt")


def test_another_encoding_inside_a_packed_file(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("Größe".encode("latin-1")))
    assert read(tmp_path / "a.txt.gz", Format(encoding="latin-1"))[0]["text"] == "Größe"
