"""Tars: the members that Python's tarfile finds, a cut anywhere told, and headers that lie."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import webdataset
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps
from gristmill.sources.streams import Stream
from gristmill.sources.tar import TarReader

Read = Callable[..., list[dict[str, Any]]]


def tar_of(*members: tuple[str, bytes], format: int = tarfile.PAX_FORMAT, **headers: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(data), dict(headers)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


NAMES = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=160
).filter(lambda name: not name.endswith("/"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=1500)), max_size=5),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_members_are_those_that_tarfile_finds(tmp_path_factory: Any, members: list[Any], format: int) -> None:
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    path.write_bytes(tar_of(*members, format=format))
    with tarfile.open(path) as tar:
        wanted = [(member.name, tar.extractfile(member).read()) for member in tar if member.isfile()]  # type: ignore[union-attr]
    with Stream(InputFile("web", path, path.name)) as stream:
        tar_reader = TarReader(stream)
        assert [(member.name, tar_reader.data()) for member in tar_reader] == wanted


def test_a_tar_cut_off_anywhere_is_told_and_whole_documents_stay(tmp_path: Path, read: Read) -> None:
    data = tar_of(*((f"{i}.txt", b"text " * (150 * i)) for i in range(6)))
    end = len(data.rstrip(b"\0")) // 512 * 512 + 512
    for cut in range(512, end + 1, 128):
        (tmp_path / "a.tar").write_bytes(data[:cut])
        with pytest.raises(SourceError, match=r"a.tar is damaged, cut off or no tar"):
            read(tmp_path / "a.tar")
    for end, last, kept in ((cut, "before that, '5', is kept", 6), (cut - 512, "sample '5' breaks off there", 5)):
        mishaps = Mishaps("skip")
        (tmp_path / "a.tar").write_bytes(data[:end])
        assert [row["text"] for row in read(tmp_path / "a.tar", None, mishaps)] == [
            "text " * (150 * i) for i in range(kept)
        ]
        assert mishaps.skipped == 1 and last in mishaps.examples[0]


def test_a_tar_is_whole_from_its_first_block_of_zeros_on(tmp_path: Path, read: Read) -> None:
    data = tar_of(("1.txt", b"one"))
    for cut in (1536, 1536 + 100, len(data)):
        (tmp_path / "a.tar").write_bytes(data[:cut])
        assert [row["text"] for row in read(tmp_path / "a.tar")] == ["one"]


def test_tars_that_were_joined_are_read_to_their_end(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(("1.txt", b"one")) + tar_of(("2.txt", b"two")))
    assert [row["text"] for row in read(tmp_path / "a.tar")] == ["one", "two"]
    (tmp_path / "a.tar").write_bytes(tar_of(("1.txt", b"one")) + b"rubbish" * 100)
    with pytest.raises(SourceError, match="a header has a"):
        read(tmp_path / "a.tar")


def of_gnu(folder: Path, name: str, *options: str) -> bytes:
    (folder / name).write_text(name)
    return subprocess.run(["tar", *options, "-cf", "-", "-C", folder, name], check=True, stdout=subprocess.PIPE).stdout


def of_webdataset(name: str) -> bytes:
    out = io.BytesIO()
    with webdataset.TarWriter(out) as tar:
        tar.write({"__key__": name, "txt": name})
    return out.getvalue()


def of_two_blocks(name: str) -> bytes:
    """As Rust, Go, BusyBox and `ShardWriter` end tars."""
    return tar_of((f"{name}.txt", name.encode())).rstrip(b"\0").ljust(1024, b"\0") + bytes(1024)


def test_tars_of_every_writer_are_read_when_they_are_joined(tmp_path: Path, read: Read) -> None:
    python = [tar_of((f"p{i}.txt", b"x" * (700 * i))) for i in range(20)]
    others = [of_gnu(tmp_path, "g.txt"), of_gnu(tmp_path, "h.txt", "-b", "1"), of_webdataset("w"), tar_of()]
    for tars in ([*python, *others], [of_two_blocks(str(i)) for i in range(30)]):
        (tmp_path / "a.tar").write_bytes(b"".join(tars))
        assert len(read(tmp_path / "a.tar")) == (23 if tars[0] is python[0] else 30)


def test_zeros_over_members_are_no_end_of_a_tar(tmp_path: Path, read: Read) -> None:
    data = tar_of(*((f"{i:03d}.txt", b"some text") for i in range(100)))
    for begin, end, said in ((20, 28, "8 blocks"), (40, 41, "a lone block"), (2, 66, "64 blocks")):
        holed = data[: begin * 512] + bytes((end - begin) * 512) + data[end * 512 :]
        (tmp_path / "a.tar").write_bytes(holed)
        with pytest.raises(SourceError, match=rf"members follow {said} of zeros, which is a hole"):
            read(tmp_path / "a.tar")
        mishaps = Mishaps("skip")
        assert len(read(tmp_path / "a.tar", None, mishaps)) == begin // 2 and mishaps.skipped == 1


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("after", [b"", tar_of(("2.txt", b"two"))])
def test_a_header_that_tells_of_a_member_which_never_comes_is_an_error(
    tmp_path: Path, read: Read, format: int, after: bytes
) -> None:
    whole = tar_of(("1.txt", b"one"), ("x" * 200 + ".txt", b"two"), format=format)
    (tmp_path / "a.tar").write_bytes(whole[: 1024 + 1024].ljust(10_240, b"\0") + after)
    with pytest.raises(SourceError, match="a header tells of a member that does not come"):
        read(tmp_path / "a.tar")


@pytest.mark.parametrize("size", [str(2**62), str(10**12), "-1", "9" * 400, "1e3", ""])
def test_a_pax_header_that_claims_more_than_there_is_neither_hangs_nor_is_believed(
    tmp_path: Path, read: Read, size: str
) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(("1.jpg", b"one"), ("2.txt", b"two"), size=size))
    with pytest.raises(SourceError, match=r"a.tar is damaged, cut off or no tar"):
        read(tmp_path / "a.tar")


@pytest.mark.parametrize("headers", [
    {"GNU.sparse.map": "0,1,x", "GNU.sparse.size": "10"},
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1e9", "GNU.sparse.name": "1.txt"},
    {"GNU.sparse.numblocks": "99999999999999999999"},
])  # fmt: skip
def test_a_file_with_holes_is_one_mishap(tmp_path: Path, read: Read, headers: dict[str, str]) -> None:
    sparse = tar_of(("1.txt", b"one"), **headers)
    (tmp_path / "a.tar").write_bytes(sparse + tar_of(("2.txt", b"two")))
    mishaps = Mishaps("skip")
    assert [row["text"] for row in read(tmp_path / "a.tar", None, mishaps)] == ["two"]
    assert mishaps.skipped == 1 and "stored with holes" in mishaps.examples[0]


def test_a_long_header_is_refused_before_it_is_read(tmp_path: Path, read: Read) -> None:
    data = bytearray(tar_of(("1.txt", b"one"), comment="x" * 600))
    data[124:136] = b"77777777777\0"  # the size of the PAX header
    data[148:156] = b"%06o\0 " % sum(data[:148] + b" " * 8 + data[156:512])
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(SourceError, match="a header claims 8,589,934,591 bytes"):
        read(tmp_path / "a.tar")
