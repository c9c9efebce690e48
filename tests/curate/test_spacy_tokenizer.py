"""The tokenizer in Python that follows spaCy's: the same tokens, without spaCy."""

from __future__ import annotations

import pydoc_data.topics
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.curate.spacy_rules import read_rules, spacy_rules
from gristmill.curate.spacy_tokenizer import SpacyTokenizer

SIGNS = ":;-)(]['’._^xXDdoO0/\\|=<>3@,!?\"“”…—–~+*%$€°"


@pytest.fixture(scope="module")
def english() -> Any:
    import spacy

    made = spacy.blank("en")
    made.add_pipe("sentencizer")
    return made


@pytest.fixture(scope="module")
def tokenizer(english: Any) -> SpacyTokenizer:
    return SpacyTokenizer(read_rules(english))


def test_chunks_of_real_text_have_spacys_tokens(english: Any, tokenizer: SpacyTokenizer) -> None:
    chunks = sorted({chunk for text in pydoc_data.topics.topics.values() for chunk in text.split()})
    for chunk in random.Random(0).sample(chunks, 3000):
        assert tokenizer.tokens(chunk) == [token.text for token in english.tokenizer(chunk)], chunk


@given(st.text(alphabet=SIGNS + "aBs1é東٣", min_size=1, max_size=12))
@settings(deadline=None, max_examples=2000)
def test_any_chunk_has_spacys_tokens(english: Any, tokenizer: SpacyTokenizer, chunk: str) -> None:
    assert tokenizer.tokens(chunk) == [token.text for token in english.tokenizer(chunk)]


@given(st.lists(st.sampled_from([*spacy_rules().rules, *spacy_rules().units, ".", ",", "x.com", "10"]), max_size=5))
@settings(deadline=None, max_examples=2000)
def test_special_cases_side_by_side_have_spacys_tokens(
    english: Any, tokenizer: SpacyTokenizer, pieces: list[str]
) -> None:
    for chunk in "".join(pieces).split():
        assert tokenizer.tokens(chunk) == [token.text for token in english.tokenizer(chunk)]
