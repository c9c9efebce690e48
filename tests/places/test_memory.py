"""Bytes at an address: maps that live as long as somebody holds them."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from gristmill.places.memory import advise, map_copy, map_descriptor, owned_view, resident, unmap, view


def test_a_map_is_the_file_and_needs_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 40)
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    address, size = map_descriptor(fd)
    os.close(fd)
    (tmp_path / "a").unlink()
    assert size == 10_240 and view(address, "u1", size)[:256].tolist() == list(range(256))
    assert view(address + 2, "<u2", 1).tolist() == [0x0302]
    unmap(address, size)


def test_a_copy_is_a_map_of_its_own() -> None:
    address, size = map_copy(b"grist")
    assert view(address, "u1", size).tobytes() == b"grist" and resident(address)
    unmap(address, size)


def test_nothing_is_mapped_where_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with open(tmp_path / "empty", "rb") as file:
        assert map_descriptor(file.fileno()) == (0, 0) == map_copy(b"")
    unmap(0, 0)


def test_an_array_cannot_be_written_and_outlives_what_it_was_cut_from() -> None:
    whole = owned_view(*map_copy(b"abcdef" * 1000))
    part = whole[6:9]
    del whole
    gc.collect()
    assert part.tobytes() == b"abc"
    with pytest.raises(ValueError, match="read-only"):
        part[0] = 1


def test_advice_is_a_hint_that_may_fail() -> None:
    advise(0x1000, 10, 3)


def test_a_folder_cannot_be_mapped(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r"No such device|Invalid"):
            map_descriptor(fd)
    finally:
        os.close(fd)
