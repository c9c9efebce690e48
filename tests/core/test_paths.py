"""A file appears whole or not at all, under names that nobody else gives."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from gristmill.core.errors import EngineError
from gristmill.core.paths import (
    atomic_file,
    clear_leftovers,
    disk_errors,
    is_temporary,
    open_temporary,
    relative_to,
    temporary_path,
    write_atomic,
)


def test_a_file_that_is_written_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    for text in ("first", b"second"):
        write_atomic(path, text)
    assert path.read_bytes() == b"second" and list(path.parent.iterdir()) == [path]


def test_a_write_that_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomic(path, "old")
    with pytest.raises(TypeError), atomic_file(path) as file:
        file.writelines([b"half", "text where bytes belong"])
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_no_two_attempts_have_one_temporary_name(tmp_path: Path) -> None:
    names = {temporary_path(tmp_path / "a.bin").name for _ in range(1000)}
    assert len(names) == 1000 and all(map(is_temporary, names))


@pytest.mark.parametrize("name", ["a.tmp", ".a.tmp", ".a.gristmill-12.tmp", "a.gristmill-0123456789abcdef.tmp", ".a"])
def test_the_temporary_files_of_others_are_not_ours(name: str) -> None:
    assert not is_temporary(name)


def test_what_a_killed_writer_left_goes_and_what_somebody_writes_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    left, other = temporary_path(path), temporary_path(tmp_path / "b")
    for file in (left, other):
        file.write_bytes(b"half")
    with open_temporary(temporary_path(path)) as writing:
        clear_leftovers(path)
        assert sorted(tmp_path.iterdir()) == sorted([Path(writing.name), other])


def test_a_file_that_is_written_is_locked(tmp_path: Path) -> None:
    with (
        open_temporary(temporary_path(tmp_path / "a")) as writing,
        open(writing.name, "rb") as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_full_disk_is_one_sentence() -> None:
    full = Path("/dev/full")
    with pytest.raises(EngineError, match=f"The disk is full while writing {full}"), disk_errors(full):
        full.write_bytes(b"a")


def test_a_path_is_told_as_seen_from_another(tmp_path: Path) -> None:
    assert relative_to(tmp_path / "a/b", tmp_path / "a/c/d") == "../../b"
