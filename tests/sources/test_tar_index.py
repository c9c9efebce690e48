"""What is kept of a tar: one walk serves all processes, and nothing is trusted longer than it should be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill.places.door import place_at
from gristmill.sources import tar_index
from gristmill.sources.tar_index import forget_index, kept_index, known_index


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tar_index, "_LEAST_BYTES", 100)
    tar_index._recent.clear()
    return tmp_path / "cache" / "gristmill" / "tars"


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    (tmp_path / "a.tar").write_bytes(bytes(1024))
    return tmp_path / "a.tar"


def never() -> Iterator[int]:
    raise AssertionError("the tar was walked again")


def forgetting(walk: Callable[[], Iterator[int]], path: Path) -> list[int]:
    """As a process does that is started now."""
    tar_index._recent.clear()
    return list(kept_index(place_at(path), walk))


def test_a_tar_is_walked_once(home: Path, tar: Path) -> None:
    assert list(kept_index(place_at(tar), lambda: iter([0, 512]))) == [0, 512]
    assert list(kept_index(place_at(tar), never)) == forgetting(never, tar) == [0, 512]


def test_a_tar_that_changed_is_walked_again(home: Path, tar: Path) -> None:
    kept_index(place_at(tar), lambda: iter([0, 512]))
    os.utime(tar, ns=(1, 1))
    assert list(kept_index(place_at(tar), lambda: iter([0]))) == [0]


@pytest.mark.parametrize("replace", [shutil.copyfile, os.replace])
def test_a_tar_of_equal_size_and_time_is_another_one(
    home: Path, tar: Path, tmp_path: Path, replace: Callable[[Path, Path], object]
) -> None:
    kept_index(place_at(tar), lambda: iter([0, 512]))
    (tmp_path / "b.tar").write_bytes(b"x" * 1024)
    before = tar.stat().st_mtime_ns
    replace(tmp_path / "b.tar", tar)
    os.utime(tar, ns=(before, before))
    assert list(kept_index(place_at(tar), lambda: iter([0]))) == forgetting(never, tar) == [0]


def test_what_is_known_is_told_without_a_walk_until_it_is_forgotten(home: Path, tar: Path) -> None:
    assert known_index(place_at(tar)) is None
    kept_index(place_at(tar), lambda: iter([0, 512]))
    for _ in range(2):
        assert list(known_index(place_at(tar))) == [0, 512]  # type: ignore[arg-type]
        tar_index._recent.clear()
    forget_index(place_at(tar))
    assert known_index(place_at(tar)) is None and not list(home.glob("*.starts"))


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"\1", lambda data: b""])
def test_what_is_not_whole_is_made_again(home: Path, tar: Path, damage: Callable[[bytes], bytes]) -> None:
    kept_index(place_at(tar), lambda: iter([0, 512]))
    (kept,) = home.glob("*.starts")
    kept.write_bytes(damage(kept.read_bytes()))
    assert forgetting(lambda: iter([0, 1024]), tar) == [0, 1024]
    assert forgetting(never, tar) == [0, 1024]


def test_where_nothing_can_be_kept_a_process_remembers(home: Path, tar: Path) -> None:
    home.parent.parent.write_text("no folder")
    assert list(kept_index(place_at(tar), lambda: iter([0]))) == list(kept_index(place_at(tar), never)) == [0]


def test_small_tars_leave_nothing_behind(home: Path, tar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_index, "_LEAST_BYTES", 2000)
    assert list(kept_index(place_at(tar), lambda: iter([0]))) == [0] and not home.exists()


def test_an_error_of_the_walk_is_told_and_nothing_is_kept(home: Path, tar: Path) -> None:
    with pytest.raises(AssertionError, match="walked again"):
        kept_index(place_at(tar), never)
    assert not list(home.glob("*.starts"))


def test_a_process_remembers_a_bounded_amount(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_index, "_MOST_BYTES", 24)
    for i in range(10):
        (tmp_path / f"{i}.tar").write_bytes(bytes(512))
        kept_index(place_at(tmp_path / f"{i}.tar"), lambda: iter([0]))
    assert len(tar_index._recent) == 3
