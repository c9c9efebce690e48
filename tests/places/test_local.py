"""Files of this machine: what the door promises of every place."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill.core.errors import ConfigError, EngineError
from gristmill.places.door import place_at, sizes
from gristmill.places.local import disk_errors, is_temporary


def test_a_range_is_read_and_the_end_of_a_file_ends_it(tmp_path: Path) -> None:
    place_at(tmp_path / "a").write(b"0123456789")
    assert [place_at(tmp_path / "a").read(*range_) for range_ in ((), (3,), (3, 4), (8, 9), (20, 1))] == [
        b"0123456789", b"3456789", b"3456", b"89", b"",
    ]  # fmt: skip


def test_sizes_come_in_order_and_the_first_that_is_missing_is_an_error_of_its_own(tmp_path: Path) -> None:
    for i in range(3):
        place_at(tmp_path / f"{i}").write(bytes(i))
    found = sizes(str(tmp_path / name) for name in ("2", "0", "gone", "1"))
    assert [next(found), next(found)] == [2, 0]
    with pytest.raises(FileNotFoundError):
        next(found)


def test_a_file_appears_when_the_block_ends_well_and_not_before(tmp_path: Path) -> None:
    with place_at(tmp_path / "new" / "a").writing() as file:
        file.write(b"whole")
        assert [is_temporary(name) for name in os.listdir(tmp_path / "new")] == [True]
    assert os.listdir(tmp_path / "new") == ["a"] and place_at(tmp_path / "new" / "a").read() == b"whole"


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    place_at(tmp_path / "a").write(b"old")
    with pytest.raises(TypeError), place_at(tmp_path / "a").writing() as file:
        file.write(b"half" + None)  # type: ignore[operator]
    with pytest.raises(ZeroDivisionError), place_at(tmp_path / "a").filling(4096) as data:
        data[: 1 // 0] = 1
    assert os.listdir(tmp_path) == ["a"] and place_at(tmp_path / "a").read() == b"old"


def test_a_file_filled_through_a_map_has_its_size_and_its_bytes(tmp_path: Path) -> None:
    with place_at(tmp_path / "a").filling(5000) as data:
        data[:] = 7
    assert place_at(tmp_path / "a").read() == bytes([7]) * 5000


def test_a_full_or_forbidden_disk_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be written"), place_at(tmp_path / "a").writing():
        raise PermissionError(13, "Permission denied")


def test_a_view_is_mapped_for_as_long_as_a_slice_of_it_is_held(tmp_path: Path, open_files: Any) -> None:
    place_at(tmp_path / "mapped").write(bytes(range(256)) * 64)
    held = place_at(tmp_path / "mapped").view()[256:512].view("<u2")
    gc.collect()
    assert str(tmp_path / "mapped") in Path("/proc/self/maps").read_text()
    assert not open_files(tmp_path)
    assert np.array_equal(held.view("u1"), np.arange(256)) and not held.flags.writeable
    del held
    assert str(tmp_path / "mapped") not in Path("/proc/self/maps").read_text()


def test_an_empty_file_is_an_empty_view_and_maps_to_nothing(tmp_path: Path) -> None:
    place_at(tmp_path / "empty").write(b"")
    assert len(place_at(tmp_path / "empty").view()) == 0
    assert place_at(tmp_path / "empty").map() == (0, 0)


def test_a_walk_passes_over_what_is_hidden_and_visits_each_folder_once(tmp_path: Path) -> None:
    for name in ("a/x", "a/.hidden", ".b/y", "c/d/z"):
        place_at(tmp_path / name).write(b"")
    (tmp_path / "c" / "again").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "round").symlink_to(tmp_path)

    def walked(links: bool) -> list[str]:
        found = place_at(tmp_path).walk(links=links)
        return sorted(os.path.relpath(os.path.join(here, name), tmp_path) for here, names in found for name in names)

    assert walked(links=False) == ["a/x", "c/d/z"]
    assert len(walked(links=True)) == 2


def test_a_link_shares_its_bytes_and_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    place_at(tmp_path / "a").write(b"bytes")
    place_at(tmp_path / "new" / "b").link(place_at(tmp_path / "a"))
    place_at(tmp_path / "new" / "b").link(place_at(tmp_path / "a"))
    assert os.path.samefile(tmp_path / "a", tmp_path / "new" / "b")


@pytest.mark.parametrize("can_link", [True, False])
def test_a_copy_is_whole_or_not_there(tmp_path: Path, can_link: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EXDEV, "another device")

    if not can_link:
        monkeypatch.setattr(os, "link", refused)
    place_at(tmp_path / "a").write(b"bytes")
    place_at(tmp_path / "new" / "b").copy(place_at(tmp_path / "a"))
    (tmp_path / "a").unlink()
    assert (tmp_path / "new" / "b").read_bytes() == b"bytes" and not (tmp_path / "new" / "b").is_symlink()
    with pytest.raises(FileNotFoundError):
        place_at(tmp_path / "new" / "c").copy(place_at(tmp_path / "a"))
    assert os.listdir(tmp_path / "new") == ["b"]


def test_bytes_are_added_to_the_end_of_a_file_that_is_no_link(tmp_path: Path) -> None:
    place_at(tmp_path / "a").write("one\n")
    place_at(tmp_path / "a").append(b"two\n")
    assert (tmp_path / "a").read_text() == "one\ntwo\n"
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic links"):
        place_at(tmp_path / "link").append(b"three\n")


def test_a_lock_is_held_once_and_never_through_a_link(tmp_path: Path) -> None:
    with place_at(tmp_path / ".lock").lock(wait=False), pytest.raises(BlockingIOError):
        place_at(tmp_path / ".lock").lock(wait=False).__enter__()
    (tmp_path / "link").symlink_to(tmp_path / ".lock")
    with pytest.raises(ConfigError, match="symbolic link"):
        place_at(tmp_path / "link").lock(wait=False).__enter__()


def test_the_lock_of_a_file_leaves_what_it_holds_alone(tmp_path: Path) -> None:
    place_at(tmp_path / "mine").write("mine")
    with place_at(tmp_path / "mine").lock(wait=True):
        assert place_at(tmp_path / "mine").read() == b"mine"


@pytest.mark.parametrize("name", ["a.tmp", ".a.tmp", ".a.gristmill-12.tmp", "a.gristmill-0123456789abcdef.tmp", ".a"])
def test_the_temporary_files_of_others_are_not_ours(name: str) -> None:
    assert not is_temporary(name)


def test_a_file_that_is_written_is_locked(tmp_path: Path) -> None:
    attempt = place_at(tmp_path / "a").attempt()
    with open(attempt.file.name, "rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    attempt.abandon()


def test_a_full_disk_is_one_sentence() -> None:
    full = Path("/dev/full")
    with pytest.raises(EngineError, match=f"The disk is full while writing {full}"), disk_errors(full):
        full.write_bytes(b"a")


def test_a_lock_ends_with_its_process_though_a_fork_of_it_lives(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from gristmill.places.door import place_at; here, there = os.pipe()\n"
        "with place_at(sys.argv[1]).lock(wait=False):\n"
        "    if os.fork() == 0: os.write(there, b'.'); time.sleep(30); os._exit(0)\n"
        "    os.read(here, 1); os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "lock"], stdout=subprocess.DEVNULL)
    assert killed.returncode == -9
    with place_at(tmp_path / "lock").lock(wait=False):
        pass
