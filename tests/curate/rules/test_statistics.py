"""Counts of characters and lines, against Python's own."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.curate.documents import Documents
from gristmill.curate.rules.statistics import statistics

from .conftest import make_documents

TEXTS = st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from("\n \t#/*\"'")), min_size=1, max_size=5)


@settings(deadline=None)
@given(TEXTS)
def test_the_counts_are_those_of_python(texts: list[str]) -> None:
    found = statistics(make_documents(texts))
    for row, text in enumerate(texts):
        lines = text.split("\n")
        assert found.characters[row] == len(text)
        assert found.alphabetic[row] == sum(map(str.isalpha, text))
        assert found.longest_line[row] == max(map(len, lines))
        assert found.full_lines[row] == sum(bool(line.strip()) for line in lines)


def test_comments_are_lines_that_begin_with_a_mark_or_stand_inside_one(documents: Callable[..., Documents]) -> None:
    texts = ["# a\nb = 1 # c\n", "/* one\ntwo */\nthree", '"""doc\nmore"""\ncode', "code"]
    assert statistics(documents(texts)).comment_characters.tolist() == [3, 12, 13, 0]


def test_counts_are_made_once_for_a_batch(documents: Callable[..., Documents]) -> None:
    batch = documents(["a"])
    assert statistics(batch) is statistics(batch)
