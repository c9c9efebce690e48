"""Names of files as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.places.patterns import expand_braces, expand_names, refuse_missing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ["a"]),
        ("train-{0000..0003}.tar", ["train-0000.tar", "train-0001.tar", "train-0002.tar", "train-0003.tar"]),
        ("{8..11}", ["8", "9", "10", "11"]),
        ("{08..11}", ["08", "09", "10", "11"]),
        ("{0..10..5}", ["0", "5", "10"]),
        ("{3..1}", ["3", "2", "1"]),
        ("{-1..1}", ["-1", "0", "1"]),
        ("{a..c}", ["a", "b", "c"]),
        ("{web,books}/x", ["web/x", "books/x"]),
        ("{a,}b", ["ab", "b"]),
        ("{a,b}{0..1}", ["a0", "a1", "b0", "b1"]),
        ("{a{0..1},b}", ["a0", "a1", "b"]),
        ("{{a,b},c}", ["a", "b", "c"]),
        # What is neither a list nor a range stays.
        ("{v1}/a", ["{v1}/a"]),
        ("{}", ["{}"]),
        ("{a", ["{a"]),
        ("a}", ["a}"]),
        ("{x{a,b}}", ["{xa}", "{xb}"]),
        ("{1..b}", ["{1..b}"]),
        ("{1..2", ["{1..2"]),
        ("{1...3}", ["{1...3}"]),
    ],
)
def test_braces_are_those_of_a_shell(text: str, expected: list[str]) -> None:
    assert expand_braces(text) == expected


@pytest.mark.parametrize("text", ["{0..99999999999}", "{0..9999}{0..9999}", "{0..999999}{a,b}"])
def test_more_names_than_anyone_has_files_are_refused_at_once(text: str) -> None:
    with pytest.raises(ConfigError, match=r"above 1,000,000"):
        expand_braces(text)


def test_lists_are_joined_by_two_colons_and_tilde_is_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expand_names("a-{0..1}.tar::~/b.tar::") == ["a-0.tar", "a-1.tar", f"{tmp_path}/b.tar"]
    assert expand_names("~/{a,b}") == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert expand_names(Path("~/x")) == [f"{tmp_path}/x"]


@pytest.mark.parametrize("name", ["{a,b}.txt", "x{0..3}", "a::b", "~", "{a,b}"])
def test_what_exists_is_named_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("text")
    assert expand_names(name) == [name]
    assert expand_names(tmp_path / name) == [str(tmp_path / name)]


def test_wildcards_in_a_folder_whose_name_has_braces(tmp_path: Path) -> None:
    (tmp_path / "{a,b}").mkdir()
    (tmp_path / "{a,b}" / "c.txt").write_text("text")
    assert expand_names(tmp_path / "{a,b}" / "*.txt") == [str(tmp_path / "{a,b}" / "*.txt")]
    assert len(expand_names(tmp_path / "{a,b}" / "*.jsonl")) == 2


def test_missing_files_are_named() -> None:
    refuse_missing("a{0..9}", [])
    with pytest.raises(ConfigError, match=r"names 5 files that are not there: a1, a2, a3 and 2 more\."):
        refuse_missing("a{0..9}", [f"a{i}" for i in range(1, 6)])
    with pytest.raises(ConfigError, match="'a' names no file"):
        refuse_missing("a", ["a"])
