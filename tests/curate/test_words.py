"""Words: what each splitter makes of real and of odd text, and that batches do not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.words import ALPHA, words
from spelt_words import TOPICS, documents, spelt, split


def test_gristmill_words() -> None:
    text = "Hello, don't stop... well-known snake_case 3.14, 1,000. 'b' ---- e\u0301te\u0301"
    expected = ["Hello", ",", "don't", "stop", "...", "well", "-", "known", "snake_case", "3.14", ",", "1,000", "."]
    assert split([text], "gristmill") == [[*expected, "'", "b", "'", "----", "e\u0301te\u0301"]]


def test_scripts_without_spaces_give_a_word_a_letter() -> None:
    assert split(["日本語 한국어 ไทย", "カ\u3099"], "gristmill") == [
        ["日", "本", "語", "한국어", "ไ", "ท", "ย"],
        ["カ\u3099"],
    ]


@given(st.lists(st.text(max_size=40), max_size=5))
@settings(deadline=None)
def test_gristmill_words_are_the_text_without_white_space(texts: list[str]) -> None:
    for text, found in zip(texts, split(texts, "gristmill"), strict=True):
        assert "".join(found) == "".join(text.split())


@given(st.lists(st.text(alphabet="aB1 '’_.,-#é東\u0301\n", max_size=60), min_size=1, max_size=5))
@settings(deadline=None)
def test_columns_tell_what_python_tells(texts: list[str]) -> None:
    batch = documents(texts)
    split_words = words(batch, "gristmill")
    flat = [word for found in spelt(batch, split_words) for word in found]
    assert split_words.chars.tolist() == [len(word) for word in flat]
    assert ((split_words.flags & ALPHA) != 0).tolist() == [any(c.isalpha() for c in word) for word in flat]
    hashes: dict[str, int] = dict(zip(flat, split_words.hashes.tolist(), strict=True))
    assert [hashes[word] for word in flat] == split_words.hashes.tolist()
    assert len(set(hashes.values())) == len(hashes)


def test_hashes_do_not_depend_on_where_a_word_stands() -> None:
    texts = ["counterrevolutionaries", "x counterrevolutionaries", "12345678 counterrevolutionaries abcdefgh"]
    batch = documents(texts)
    split_words = words(batch, "gristmill")
    assert len({split_words.hashes[i] for i in (0, 2, 4)}) == 1


def test_take_gives_the_words_of_the_documents_taken() -> None:
    batch = documents(TOPICS[:20])
    split_words = words(batch, "gristmill")
    for rows in ([3, 4, 5, 9], [], [19, 0], list(range(20))):
        taken = batch.take(np.array(rows, np.int64))
        assert spelt(taken, words(taken, "gristmill")) == [spelt(batch, split_words)[row] for row in rows]


def test_text_with_a_word_a_byte_finds_room() -> None:
    assert split(["#*" * 5000], "gristmill") == [list("#*" * 5000)]
    assert len(split([":,;" * 900], "spacy")[0]) == 2700


def test_an_unknown_splitter_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'spacy'"):
        words(documents(["a"]), "spcay")
