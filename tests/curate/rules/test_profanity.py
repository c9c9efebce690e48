"""Profanity: the matcher finds what datatrove's regular expression finds, and says what."""

from __future__ import annotations

import pydoc_data.topics
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.rules import content
from gristmill.curate.rules.profanity import Profanity, known_languages, listed
from gristmill.curate.rules.word_list import WordList


def c4_regex(language):
    """The pattern of datatrove's C4BadWordsFilter."""
    alone, anywhere = listed((language,), None)
    if anywhere:
        return re.compile("|".join(map(re.escape, anywhere)))
    return re.compile(r"(?:\W|^)({})(?:\W|$)".format("|".join(map(re.escape, alone))))


@st.composite
def seasoned(draw, language):
    """Real text with listed words between, in and beside its words."""
    words = sorted(set().union(*listed((language,), None)))
    rows = draw(st.lists(st.sampled_from(pydoc_data.topics.topics["class"].split()), max_size=12))
    for _ in range(draw(st.integers(0, 2))):
        word = draw(st.sampled_from(words))
        word = draw(st.sampled_from([word, word.upper(), f"{word}s", f"x{word}", f"({word})", f"{word}.", f"_{word}"]))
        rows.insert(draw(st.integers(0, len(rows))), word)
    return draw(st.sampled_from([" ", "\n", ", "])).join(rows)


@pytest.mark.parametrize("language", ["en", "fr", "hi", "ja", "ru", "th", "zh"])
def test_datatrove_variant_decides_as_its_regular_expression(documents, language):
    pattern, rule = c4_regex(language), Profanity(languages=[language], variant="datatrove")

    @settings(max_examples=40, deadline=None)
    @given(st.lists(seasoned(language), min_size=1, max_size=8))
    def check(texts):
        expected = [pattern.search(text.lower()) is None for text in texts]
        assert rule.judge(documents(texts)).kept.tolist() == expected

    check()


def test_the_matched_word_is_the_evidence(documents):
    verdict = Profanity(max_ratio=0.0).judge(documents(["What a Bastard, he said.", "bastardised"]))
    assert verdict.codes.tolist() == [0, -1]
    assert verdict.details == {0: "Bastard"}


def test_ratio_is_of_characters_in_words(documents):
    text = "damn nice weather today"
    matches = WordList(["damn", "weather today"]).match(documents([text]))
    assert (matches.listed[0], matches.characters[0]) == (4 + 12, 20)


def test_few_listed_words_are_kept_by_ratio(documents):
    words = " ".join(pydoc_data.topics.topics["class"].split()[:200])
    assert Profanity().judge(documents([f"bastard {words}"])).kept.all()
    assert not Profanity().judge(documents(["you bastard"])).kept.any()


def test_combining_marks_are_part_of_words(documents):
    word = next(word for word in sorted(listed(("hi",), None)[0]) if word.isalpha())
    assert Profanity(languages=["hi"], max_ratio=0.0).judge(documents([word + "\u093f"])).kept.all()
    assert not Profanity(languages=["hi"], max_ratio=0.0).judge(documents([word])).kept.any()


def test_keep_fraction_depends_on_the_text_only(documents):
    texts = [f"bastard number {i}" for i in range(2000)]
    rule = Profanity(variant="datatrove", keep_fraction=0.3)
    kept = rule.judge(documents(texts)).kept
    assert 0.25 < kept.mean() < 0.35
    assert rule.judge(documents(texts[::-1])).kept.tolist() == kept.tolist()[::-1]


def test_an_own_list_is_part_of_the_content(documents, tmp_path):
    own = tmp_path / "words.txt"
    own.write_text("# ours\nspam\n")
    rule = Profanity(languages=[], words=str(own), max_ratio=0.0)
    before = content(rule)
    assert rule.judge(documents(["Spam!", "ham", "# ours"])).codes.tolist() == [0, -1, -1]
    own.write_text("ham\n")
    assert content(rule) != before


def test_27_languages_ship():
    assert len(known_languages()) == 27
    assert all(any(listed((code,), None)) for code in known_languages())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"languages": ["xx"]}, "no list for 'xx'"),
        ({"languages": "en"}, r"languages: \[en\]"),
        ({"variant": "c4"}, "no variant"),
        ({"keep_fraction": 0.1}, "keep_fraction"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Profanity(**options)


def test_a_missing_list_is_named(documents):
    with pytest.raises(ConfigError, match=r"absent\.txt"):
        Profanity(words="absent.txt").judge(documents(["x"]))
