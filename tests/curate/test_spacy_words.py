"""Words by spaCy: compiled, they are those of spaCy itself."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.curate.spacy_rules import spacy_rules
from gristmill.curate.words import ALPHA, PUNCT, SENTENCE_END, WORD, words
from spelt_words import ODD, TOPICS, documents, spelt, split

PIECES = [
    "don't",
    "cannot",
    "e.g.",
    "i.e.",
    "U.S.",
    "10am",
    "He’ll",
    "):",
    ":-)",
    "(;",
    "[:",
    ":]",
    "^_^",
    "’s",
    "km/h",
    "8.8.4.4",
    "192.168.0.1",
    "172.16.0.1",
    "172.32.0.1",
    "0.1.2.3",
    "1.02.003.4",
    "223.255.1.254",
    "127.0.1.in",
    "http",
    "git+ssh",
    "x",
    "://",
    "@",
    ":8080",
    ":1",
    "/a?b#c",
    "www.",
    "-a.b",
    "a_.org",
    "a-b.co.uk",
    "é.fr",
    ".com",
    ".Org",
    ".ëë",
    "münchen",
    "東京",
    ".jp",
    "٣",
    "“",
    "”",
    "…",
    ".",
    "..",
    ",",
    "(",
    ")",
    "-",
    "/",
    "'",
]


@pytest.fixture(scope="session")
def english() -> Any:
    import spacy

    made = spacy.blank("en")
    made.add_pipe("sentencizer")
    made.max_length = 1 << 30
    return made


def test_spacy_words_are_spacys(english: Any) -> None:
    texts = TOPICS + ODD
    for text, found in zip(texts, split(texts, "spacy"), strict=True):
        assert found == [token.text for token in english.tokenizer(text) if not token.is_space], text[:80]


@given(st.text(alphabet="abzABS019.,:;-'’()[]$%°+*/@#~—–…_ é東", max_size=24).map(str.split))
@settings(deadline=None, max_examples=500)
def test_spacy_chunks_are_spacys(english: Any, chunks: list[str]) -> None:
    assert split(chunks, "spacy") == [[token.text for token in english.tokenizer(chunk)] for chunk in chunks]


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
@settings(deadline=None, max_examples=1000)
def test_addresses_and_special_cases_are_spacys(english: Any, chunk: str) -> None:
    assert split([chunk], "spacy") == [[token.text for token in english.tokenizer(chunk)]]


def test_stand_ins_are_settled_wherever_they_stand(english: Any) -> None:
    """Chunks that only Python can split (of digits of another script, or long), first, last, alone and in between."""
    asked = ["x٣.com:٣٣", "a-" * 200 + "b", "表7.1/a-b"]
    texts = [*asked, " ".join(asked), "", "plain words " + asked[0], asked[1] + " plain", " ".join(["a", *asked] * 50)]
    for text, found in zip(texts, split(texts, "spacy"), strict=True):
        assert found == [token.text for token in english.tokenizer(text) if not token.is_space]


def test_hardly_anything_is_left_to_python() -> None:
    from gristmill.curate.spacy_words import ChunkTable

    table, asked = ChunkTable(spacy_rules(), 1 << 20), []
    learn = table._learn
    table._learn = lambda chunks: (asked.extend(chunks), learn(chunks))[1]  # type: ignore[method-assign]
    table.split(documents(TOPICS))
    assert len(asked) < len({chunk for text in TOPICS for chunk in text.split()}) / 500


def test_spacy_flags(english: Any) -> None:
    batch = documents(TOPICS[:10] + ODD)
    split_words = words(batch, "spacy")
    tokens = [t for row in range(len(batch)) for t in english(batch.string(row)) if not t.is_space]
    ends = english.get_pipe("sentencizer").punct_chars
    assert ((split_words.flags & PUNCT) != 0).tolist() == [token.is_punct for token in tokens]
    assert ((split_words.flags & SENTENCE_END) != 0).tolist() == [token.text in ends for token in tokens]
    assert ((split_words.flags & ALPHA) != 0).tolist() == [any(c.isalpha() for c in t.text) for t in tokens]
    assert split_words.flags[0] & WORD


def test_a_full_table_forgets_and_gives_the_same() -> None:
    from gristmill.curate.spacy_words import ChunkTable

    table = ChunkTable(spacy_rules(), max_words=50)
    texts = [" ".join(random.Random(seed).sample(TOPICS[0].split(), 60)) for seed in range(4)] + TOPICS[:5]
    batch = documents(texts)
    assert spelt(batch, table.split(batch)) == split(texts, "spacy")


def test_an_unknown_spacy_is_asked_for_everything() -> None:
    from gristmill.curate.spacy_words import ChunkTable

    batch = documents(ODD)
    table = ChunkTable(dataclasses.replace(spacy_rules(), known=False), 1 << 20)
    assert spelt(batch, table.split(batch)) == split(ODD, "spacy")


def test_special_cases_of_one_token_stay_one(english: Any) -> None:
    """What compiled code takes for granted of the special cases that spaCy looks for among tokens."""
    from spacy.tokenizer import Tokenizer

    own = english.tokenizer
    plain = Tokenizer(english.vocab, {}, own.prefix_search, own.suffix_search, own.infix_finditer, None, own.url_match)
    for rule, tokens in own.rules.items():
        if own.find_prefix(rule) or own.find_suffix(rule) or own.find_infix(rule):
            assert len(plain(rule)) > 1 or len(tokens) == 1
