"""Words and phrases are found whatever their case, alone or anywhere, as regular expressions find them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.documents import Documents
from gristmill.curate.rules.word_list import WordList, read_lines

from .conftest import make_documents

Make = Callable[..., Documents]


def first(words: WordList, text: str) -> str | None:
    found = words.match(make_documents([text]))
    begin, end = int(found.begins[0]), int(found.ends[0])
    return None if begin < 0 else text.encode()[begin:end].decode()


def test_a_word_stands_alone_and_a_piece_anywhere() -> None:
    words = WordList(["cat"], ["dog"])
    assert first(words, "a Cat.") == "Cat" and first(words, "concatenate") is None
    assert first(words, "hotDOGs") is not None


def test_a_phrase_is_found_as_it_is_written() -> None:
    assert first(WordList(["two words"]), "These TWO Words.") == "TWO Words"
    assert first(WordList(["two words"]), "These two  words.") is None


def test_combining_marks_are_part_of_words_where_they_are_asked_for() -> None:
    word, longer = "क", "की"
    assert first(WordList([word]), longer) is None
    assert first(WordList([word], marks=False), longer) == word


@settings(deadline=None, max_examples=60)
@given(st.text("ab_1 .", max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=3))
def test_the_first_word_begins_where_a_regular_expression_finds_one(text: str, listed: list[str]) -> None:
    expected = re.search(r"\b(?:" + "|".join(map(re.escape, listed)) + r")\b", text)
    found = WordList(listed).match(make_documents([text]))
    assert int(found.begins[0]) == (expected.start() if expected else -1)


def test_a_list_file_has_an_entry_a_line(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("# a comment\n one \n\ntwo words\n")
    assert read_lines(tmp_path / "words", "profanity") == ("one", "two words")
    with pytest.raises(ConfigError, match="profanity cannot read its list"):
        read_lines(tmp_path / "none", "profanity")
