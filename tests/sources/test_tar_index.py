"""What is kept of a tar: one walk serves all processes, and nothing is trusted longer than it should be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill.sources import tar_index
from gristmill.sources.tar_index import kept_index


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
    return list(kept_index(path, walk))


def test_a_tar_is_walked_once(home: Path, tar: Path) -> None:
    assert list(kept_index(tar, lambda: iter([0, 512]))) == [0, 512]
    assert list(kept_index(tar, never)) == forgetting(never, tar) == [0, 512]


def test_a_tar_that_changed_is_walked_again(home: Path, tar: Path) -> None:
    kept_index(tar, lambda: iter([0, 512]))
    os.utime(tar, ns=(1, 1))
    assert list(kept_index(tar, lambda: iter([0]))) == [0]


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"\1", lambda data: b""])
def test_what_is_not_whole_is_made_again(home: Path, tar: Path, damage: Callable[[bytes], bytes]) -> None:
    kept_index(tar, lambda: iter([0, 512]))
    (kept,) = home.glob("*.starts")
    kept.write_bytes(damage(kept.read_bytes()))
    assert forgetting(lambda: iter([0, 1024]), tar) == [0, 1024]
    assert forgetting(never, tar) == [0, 1024]


def test_where_nothing_can_be_kept_a_process_remembers(home: Path, tar: Path) -> None:
    home.parent.parent.write_text("no folder")
    assert list(kept_index(tar, lambda: iter([0]))) == list(kept_index(tar, never)) == [0]


def test_small_tars_leave_nothing_behind(home: Path, tar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_index, "_LEAST_BYTES", 2000)
    assert list(kept_index(tar, lambda: iter([0]))) == [0] and not home.exists()


def test_an_error_of_the_walk_is_told_and_nothing_is_kept(home: Path, tar: Path) -> None:
    with pytest.raises(AssertionError, match="walked again"):
        kept_index(tar, never)
    assert not list(home.glob("*.starts"))


def test_a_process_remembers_a_bounded_amount(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_index, "_MOST_BYTES", 24)
    for i in range(10):
        (tmp_path / f"{i}.tar").write_bytes(bytes(512))
        kept_index(tmp_path / f"{i}.tar", lambda: iter([0]))
    assert len(tar_index._recent) == 3
