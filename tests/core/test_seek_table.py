"""zstd's seek table: written and read back, with checksums or without, and nothing else taken for one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.seek_table import SeekTable, read_seek_table, seek_table_bytes

SIZES = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=6)
TWO = [(30, 100), (5, 7)]


def read(data: bytes) -> SeekTable | None:
    return read_seek_table(lambda at, count: data[at : at + count], len(data))


@given(sizes=SIZES, before=st.binary(max_size=20))
def test_a_table_that_was_written_is_read_wherever_it_begins(sizes: list[tuple[int, int]], before: bytes) -> None:
    table = read(before + seek_table_bytes(sizes))
    assert table is not None and (table.at, table.descriptor) == (len(before), 0)
    for column in (0, 1):
        sums = [sum(size[column] for size in sizes[:i]) for i in range(len(sizes) + 1)]
        assert table.starts[:, column].tolist() == sums


def test_checksums_of_frames_are_passed_over() -> None:
    entries = struct.pack("<6I", 30, 100, 1, 5, 7, 2)
    data = struct.pack("<II", 0x184D2A5E, len(entries) + 9) + entries + struct.pack("<IBI", 2, 0x80, 0x8F92EAB1)
    table = read(data)
    assert table is not None and table.descriptor == 0x80
    assert table.starts.tolist() == [[0, 0], [30, 100], [35, 107]]


@pytest.mark.parametrize("at", [0, 1, 4, -9, -5, -4, -1])
def test_another_byte_in_header_or_footer_makes_it_none(at: int) -> None:
    data = bytearray(seek_table_bytes(TWO))
    data[at] ^= 0x80
    assert read(bytes(data)) is None


@pytest.mark.parametrize("data", [b"", seek_table_bytes(TWO)[:-1], seek_table_bytes(TWO)[1:], bytes(100)])
def test_a_file_without_a_table_has_none(data: bytes) -> None:
    assert read(data) is None
