"""Lines out of streams: whole ones, each owned by one part, and none too long."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import SourceError
from gristmill.sources import base, lines
from gristmill.sources.base import Format, InputFile, Part
from gristmill.sources.lines import cut_bytes, is_utf8, read_blocks, read_whole, tabulate, text_blocks, where

LINES = st.lists(st.sampled_from(["a", "", "bc ", "\t", "größer", "x" * 9]), max_size=8)


READ = st.integers(1, 9) | st.just(100)


@given(LINES, st.booleans(), st.integers(1, 9), READ, READ, READ)
def test_parts_of_any_size_own_each_line_once(
    strings: list[str], ends: bool, size: int, chunk_bytes: int, beyond: int, further: int
) -> None:
    data = "\n".join(strings).encode() + (b"\n" if ends and strings else b"")
    starts = list(range(0, len(data), size)) or [0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk_bytes)
        patch.setattr(lines, "_BEYOND", beyond)
        patch.setattr(lines, "_FURTHER", further)
        found = [
            (at, block)
            for start, stop in zip(starts, [*starts[1:], None], strict=True)
            for at, block in read_blocks(io.BytesIO(data[start:]), start, stop)
        ]
    assert b"".join(block or b"" for _, block in found) == data
    assert all(block and data[at:].startswith(block) for at, block in found)


class _Broken(io.BytesIO):
    """A stream that breaks off where it ends."""

    def read(self, size: int | None = -1, /) -> bytes:
        if not (found := super().read(size)):
            raise SourceError("it breaks off")
        return found


@given(LINES, st.integers(0, 60), READ, READ, READ)
def test_lines_before_a_stream_breaks_off_are_read(
    strings: list[str], stop: int, chunk_bytes: int, beyond: int, further: int
) -> None:
    data, found = "".join(f"{line}\n" for line in strings).encode() + b"half of a line", b""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"CHUNK_BYTES": chunk_bytes, "_BEYOND": beyond, "_FURTHER": further}.items():
            patch.setattr(lines, name, value)
        with contextlib.suppress(SourceError):
            for _, block in read_blocks(_Broken(data), 0, stop):
                found += block or b""
    owned = data.find(b"\n", stop) + 1 or data.rfind(b"\n") + 1
    assert found == data[:owned]


@given(
    st.binary(max_size=40).map(lambda data: data.replace(b"a", b"\n"))
    | st.binary(max_size=9).map(bytes.splitlines).map(b"\n".join)
)
def test_a_table_of_lines_has_every_break(data: bytes) -> None:
    table = tabulate(data + b"x\n")
    begins = [0, *(at + 1 for at, byte in enumerate(data) if byte == ord("\n"))]
    assert table.begins.tolist() == begins


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"\t", b"x"]) | st.integers(0, 140).map(b"x".__mul__)))
def test_a_table_of_lines_is_what_python_splits(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    table, lines = tabulate(data), data.removesuffix(b"\n").split(b"\n") if data else []
    cut = [data[begin:end] for begin, end in zip(table.begins.tolist(), table.ends.tolist(), strict=True)]
    assert cut == [line.removesuffix(b"\r") for line in lines]
    assert table.filled.tolist() == [bool(line.strip()) for line in lines]


def test_more_lines_than_were_expected_are_all_found() -> None:
    assert tabulate(b"\n" * 1_000).begins.tolist() == list(range(1_000))


def test_a_line_over_the_limit_is_told_and_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_DOCUMENT_BYTES", 4)
    assert list(read_blocks(io.BytesIO(b"ab\nabcdef\ncd\n"), 0, None)) == [(0, b"ab\n"), (3, None), (10, b"cd\n")]


def test_a_table_of_lines_says_where_each_ends_and_whether_it_is_blank() -> None:
    table = tabulate(b"one\r\n \t\n\ntwo")
    assert table.begins.tolist() == [0, 5, 8, 9] and table.ends.tolist() == [3, 7, 8, 12]
    assert table.filled.tolist() == [True, False, False, True]


def test_only_plain_utf8_is_cut_at_any_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 100)
    file = InputFile("web", tmp_path / "a.txt", "a.txt")
    assert [part.start for part in cut_bytes(file, Format(), 100, 40)] == [0, 40, 80]
    assert cut_bytes(file, Format(encoding="latin-1"), 100, 40) == [Part(file, size=100)]


def test_a_byte_order_mark_is_no_text_and_other_encodings_become_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\n")
    (tmp_path / "b.txt").write_bytes("größer\n".encode("latin-1"))
    a, b = (Part(InputFile("web", tmp_path / name, name)) for name in ("a.txt", "b.txt"))
    assert list(text_blocks(a, Format(), None)) == [(3, b"one\n")]
    assert list(text_blocks(b, Format(encoding="latin-1"), None)) == [(0, "größer\n".encode())]


def test_a_stream_is_read_whole_unless_it_is_too_long() -> None:
    assert read_whole(io.BytesIO(b"abc"), 3) == b"abc" and read_whole(io.BytesIO(b"abcd"), 3, 1) is None


def test_places_are_lines_where_they_are_known() -> None:
    file = InputFile("web", Path("a"), "a")
    assert where(Part(file), 7, 2) == "a, line 2" and where(Part(file, start=5), 7, 2) == "a, byte 7"
    assert is_utf8("größer".encode()) and not is_utf8(b"\xff") and is_utf8(b"")
