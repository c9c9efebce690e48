"""Patterns on this machine: what `glob` finds, and an error for what it passes over in silence."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.places.globbing import globbed
from nobody import AsNobody

PARTS = st.sampled_from(["a", "b.txt", "c", ".h", "d[", "é"])
FILES = st.lists(st.lists(PARTS, min_size=1, max_size=4), max_size=8)
LINKS = st.lists(st.tuples(PARTS, PARTS), max_size=3)
PATTERNS = st.lists(
    st.sampled_from(["a", "c", "*", "**", "*.txt", ".*", "?", "[ab]*", "b.txt", "d[[]", "d[", "a/..", ".", ""]),
    min_size=1, max_size=5,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(FILES, LINKS, PATTERNS, st.booleans())
def test_a_pattern_matches_the_files_that_glob_finds(
    tmp_path_factory: Any, files: list[list[str]], links: list[tuple[str, str]], parts: list[str], relative: bool
) -> None:
    root = tmp_path_factory.mktemp("glob")
    for names in files:
        path = root.joinpath(*names)
        if not any(each.is_file() for each in (path, *path.parents)) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    for name, to in links:
        if to != name and not os.path.lexists(root / name) and not (root / to).is_dir():  # glob follows circles
            (root / name).symlink_to(to)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        pattern = "/".join(parts).lstrip("/") if relative else "/".join([str(root), *parts])
        found = [name for name in globbed(pattern) if os.path.isfile(name)]
        assert sorted(found) == sorted(name for name in glob.glob(pattern, recursive=True) if os.path.isfile(name))


@pytest.mark.parametrize("pattern", ["**", "**/*.txt", "*/*", "*/x", "shut/*", "shut/x"])
def test_a_folder_that_cannot_be_looked_into_is_an_error(open_folder: Path, as_nobody: AsNobody, pattern: str) -> None:
    (open_folder / "shut").mkdir(mode=0)
    (open_folder / ".hidden").mkdir(mode=0)
    with as_nobody():
        assert not glob.glob(f"{open_folder}/{pattern}", recursive=True) or pattern.startswith("**")
        with pytest.raises(PermissionError):
            list(globbed(f"{open_folder}/{pattern}"))
        assert list(globbed(f"{open_folder}/*.txt")) == []


def test_a_link_to_a_folder_above_is_no_way_round_and_one_to_another_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    for name in ("x.txt", "a/y.txt", "a/b/z.txt", "c/w.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "b" / "own").symlink_to(".")
    (tmp_path / "a" / "over").symlink_to("../c")
    found = [os.path.relpath(name, tmp_path) for name in globbed(f"{tmp_path}/**") if os.path.isfile(name)]
    assert sorted(found) == ["a/b/z.txt", "a/over/w.txt", "a/y.txt", "c/w.txt", "x.txt"]
