"""Which files a source's paths name, in which order, and what they are called."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.sources.base import expand


def write(folder: Path, names: Iterable[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def names(*paths: Path | str) -> list[str]:
    return [file.name for file in expand("web", [str(path) for path in paths])]


def test_a_folder_gives_all_files_below_it_sorted_and_hidden_ones_left_out(tmp_path: Path) -> None:
    write(tmp_path, ["b.txt", "a/z.txt", "a/y.txt", ".hidden", ".git/config", "a/.x"])
    assert names(tmp_path) == ["a/y.txt", "a/z.txt", "b.txt"]


def test_a_pattern_names_files_from_its_fixed_part(tmp_path: Path) -> None:
    write(tmp_path, ["raw/b/2.txt", "raw/a/1.txt", "raw/a/no.md"])
    assert names(tmp_path / "raw" / "*" / "*.txt") == ["a/1.txt", "b/2.txt"]
    assert names(tmp_path / "raw" / "**" / "*.md") == ["a/no.md"]


def test_a_single_file_is_named_by_itself_wherever_it_lies(tmp_path: Path) -> None:
    write(tmp_path, ["deep/er/a.txt"])
    assert names(tmp_path / "deep/er/a.txt") == ["a.txt"]


def test_equal_names_in_two_folders_stay_apart(tmp_path: Path) -> None:
    write(tmp_path, ["web/part.txt", "code/part.txt"])
    assert names(tmp_path / "web" / "part.txt", tmp_path / "code" / "part.txt") == ["web/part.txt", "code/part.txt"]
    assert names(tmp_path / "web", tmp_path / "code" / "*.txt") == ["web/part.txt", "code/part.txt"]


def test_names_do_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ["raw/web/a.txt", "raw/code/a.txt"])
    whole = names(tmp_path / "raw" / "web", tmp_path / "raw" / "code")
    monkeypatch.chdir(tmp_path / "raw")
    assert names("web", "code") == names("../raw/web/", "./code") == whole


def test_links_to_folders_are_followed_and_circles_end(tmp_path: Path) -> None:
    write(tmp_path, ["elsewhere/a.txt", "raw/b.txt"])
    (tmp_path / "raw" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "raw")
    assert names(tmp_path / "raw") == ["b.txt", "link/a.txt"]


def test_a_file_name_that_is_not_utf8_gets_a_name_that_is(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("text")
    assert names(tmp_path) == ["caf\\xe9.txt"]


def test_a_path_without_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for missing in ("empty", "nothing.txt", "*.jsonl"):
        with pytest.raises(ConfigError, match="names no file") as caught:
            expand("web", [str(tmp_path / missing)])
        assert missing in str(caught.value) and "'web'" in str(caught.value)


def test_a_file_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path, ["raw/a.txt"])
    with pytest.raises(ConfigError, match=r"names the file a.txt 2 times"):
        expand("web", [str(tmp_path / "raw"), str(tmp_path / "raw" / "a.txt")])
