"""The trie of listed words as compiled code walks it, against a search by Python."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill.curate.rules.word_list import WordList

_LETTERS = st.text("abc ", max_size=30)


def _first(text: str, listed: list[str]) -> tuple[int, int]:
    """The first listed word that stands alone, the longest at its place."""
    for at in range(len(text)):
        if at and text[at - 1] != " ":
            continue
        for word in sorted(listed, key=len, reverse=True):
            end = at + len(word)
            if text.startswith(word, at) and (end == len(text) or text[end] == " "):
                return at, end
    return -1, -1


# The first case compiles; the fixture is a function that keeps nothing.
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_LETTERS, st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6))
def test_the_first_longest_listed_word_is_found_where_it_stands_alone(
    documents: Any, text: str, listed: list[str]
) -> None:
    found = WordList(listed, []).match(documents([text]))
    assert (found.begins[0], found.ends[0]) == _first(text, listed)
