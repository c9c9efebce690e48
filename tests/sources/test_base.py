"""Which files a source's paths name, in which order, and what they are called."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import ConfigError, SourceError
from gristmill.sources.base import Format, InputFile, Mishap, Mishaps, Part, expand, parts_from, skippable
from gristmill.sources.units import cut_units, read_unit
from nobody import AsNobody


def write(folder: Path, names: Iterable[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def names(*paths: Path | str) -> list[str]:
    return [file.name for file in expand("web", [str(path) for path in paths])]


def test_a_file_spells_its_path_once_and_is_the_same_file_after_it() -> None:
    file = InputFile("web", Path("a/b.jsonl"), "b.jsonl")
    assert file.spelt == os.fspath(file.path) and file.spelt is file.spelt
    assert file == InputFile("web", Path("a/b.jsonl"), "b.jsonl")


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
    with pytest.raises(ConfigError, match=r"'::' \(source 'web'\) names no file"):
        expand("web", ["::"])


def test_a_file_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path, ["raw/a.txt"])
    with pytest.raises(ConfigError, match=r"names the file a.txt 2 times"):
        expand("web", [str(tmp_path / "raw"), str(tmp_path / "raw" / "a.txt")])


def test_braces_name_files_in_their_order(tmp_path: Path) -> None:
    write(tmp_path, [f"train-{i:04d}.tar" for i in range(12)])
    assert names(tmp_path / "train-{0009..0011}.tar") == ["train-0009.tar", "train-0010.tar", "train-0011.tar"]
    assert names(tmp_path / "train-{0002,0001}.tar") == ["train-0002.tar", "train-0001.tar"]


def test_braces_name_folders_and_patterns_too(tmp_path: Path) -> None:
    write(tmp_path, ["web/a.txt", "web/b.txt", "books/c.txt", "code/d.txt"])
    assert names(tmp_path / "{web,books}") == ["web/a.txt", "web/b.txt", "books/c.txt"]
    assert names(tmp_path / "{web,code}" / "*.txt") == ["web/a.txt", "web/b.txt", "code/d.txt"]


def test_two_colons_join_lists(tmp_path: Path) -> None:
    write(tmp_path, ["a-0.tar", "a-1.tar", "b.tar"])
    assert names(f"{tmp_path}/a-{{0..1}}.tar::{tmp_path}/b.tar") == ["a-0.tar", "a-1.tar", "b.tar"]


def test_files_that_are_missing_from_a_range_are_named(tmp_path: Path) -> None:
    write(tmp_path, ["a-0.tar", "a-3.tar"])
    with pytest.raises(
        ConfigError, match=r"\(source 'web'\) names 2 files that are not there: .*/a-1.tar, .*/a-2.tar\."
    ):
        expand("web", [str(tmp_path / "a-{0..3}.tar")])


def test_names_that_really_hold_braces_or_colons_are_read(tmp_path: Path) -> None:
    write(tmp_path, ["{a,b}.txt", "c::d.txt"])
    assert names(tmp_path / "{a,b}.txt", tmp_path / "c::d.txt") == ["{a,b}.txt", "c::d.txt"]


@pytest.mark.parametrize(("given", "said"), [
    ("d", r"The folder .*/d/sub cannot be listed \(Permission denied\)"),
    ("d/**/*.txt", r"The folder .*/d/sub cannot be listed \(Permission denied\)"),
    ("d/*/*.txt", r"The folder .*/d/sub cannot be listed \(Permission denied\)"),
    ("d/sub/*.txt", r"/d/sub.* cannot be .* \(Permission denied\)"),
    ("d/*/c.txt", r"/d/sub/c.txt cannot be looked at \(Permission denied\)"),
    ("d/sub/c.txt", r"/d/sub/c.txt cannot be looked at \(Permission denied\)"),
    ("{d/a.txt,d/sub/*.txt}", r"/d/sub.* cannot be .* \(Permission denied\)"),
])  # fmt: skip
def test_what_may_not_be_looked_at_is_told_by_whatever_names_it(
    open_folder: Path, as_nobody: AsNobody, given: str, said: str
) -> None:
    write(open_folder, ["d/a.txt", "d/sub/c.txt"])
    (open_folder / "d" / "sub").chmod(0)
    given = given.replace("{d", f"{open_folder}/{{d") if given.startswith("{") else f"{open_folder}/{given}"
    with as_nobody():
        with pytest.raises(SourceError, match=said):
            names(given)
        assert names(open_folder / "d" / "*.txt") == ["a.txt"]


@pytest.mark.parametrize("given", ["", "*.txt", "**/*"])
def test_a_link_to_nothing_is_a_file_that_its_reader_names(tmp_path: Path, given: str) -> None:
    write(tmp_path, ["a.txt"])
    for name, to in (("b.txt", "gone"), ("c.txt", "c.txt"), (".hidden", "gone")):
        (tmp_path / name).symlink_to(to)
    assert names(tmp_path / given) == ["a.txt", "b.txt", "c.txt"]
    mishaps = Mishaps("skip")
    for unit in cut_units(expand("web", [str(tmp_path / given)]), {"web": Format()}):
        list(read_unit(unit, Format(), mishaps))
    assert [said.rpartition("/")[2] for said in mishaps.examples] == [
        "b.txt cannot be read (a link to nothing).", "c.txt cannot be read (a link to nothing)."]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), [
    ({"format": "jsnol"}, "No format is called 'jsnol'"), ({"documents": "page"}, "documents is 'file', 'line'"),
    ({"encoding": "utf-9"}, "encoding 'utf-9' is not one that Python knows"), ({"text": ""}, "cannot be empty"),
    ({"fields": ["row"]}, "'row' cannot be carried"), ({"id": "text"}, "must be different fields"),
])  # fmt: skip
def test_a_format_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Format(**options)


def test_encodings_have_one_name_and_a_single_field_is_a_list() -> None:
    assert Format(encoding="UTF8").is_utf8 and Format(encoding="latin-1").encoding == "iso8859-1"
    assert Format(fields="url").fields == ("url",)


def test_parts_of_a_file_share_its_size() -> None:
    file = InputFile("web", Path("a"), "a")
    parts = parts_from(file, [0, 10, 25], 100)
    assert [(part.start, part.stop, part.size) for part in parts] == [(0, 10, 33), (10, 25, 33), (25, None, 34)]
    assert parts_from(file, [], 7) == [Part(file, size=7)]


def test_what_was_not_read_is_counted_by_file_and_told_of_the_first_twenty() -> None:
    kept: list[Mishap] = []
    mishaps = Mishaps("skip", kept.extend)
    for number in range(50):
        file = InputFile("web", Path(f"{number:02}"), f"{number:02}")
        for row in range(1 + (number == 0)):
            mishaps.report(skippable(f"{number:02} is bad."), file, place=row)
        mishaps.empty.append(file.name)
    facts: dict[str, Any] = mishaps.finish()
    assert facts["unreadable"] == len(kept) == 51 and facts["ignored"] == 0
    assert facts["damaged"][0] == facts["empty"][0] == 50 and len(facts["damaged"][1]) == len(facts["empty"][1]) == 20
    assert facts["damaged"][1][:2] == ["00 is bad. (and 1 more there)", "01 is bad."]
    with pytest.raises(SourceError, match=r'say on_error="skip"'):
        Mishaps().report(skippable("x is bad."), InputFile("web", Path("x"), "x"))
