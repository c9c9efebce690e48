"""A text is cut after a paragraph where one ends near enough, and never inside a character."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.stages.boundary import cut_place, paragraph_ends
from gristmill.tokenize.tokenizer import Tokenizer, load_tokenizer


@pytest.fixture(scope="module", params=["byte", "gpt2"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return load_tokenizer(request.param)


def parts(tokenizer: Tokenizer, text: str, wanted: int, reach: int) -> tuple[str, str, str]:
    tokens, _ = tokenizer.encode_batch([text])
    place, boundary = cut_place(tokens, wanted, reach, tokenizer)
    return tokenizer.decode(tokens[:place]), tokenizer.decode(tokens[place:]), boundary


def test_the_nearest_end_of_a_paragraph_is_taken(tokenizer: Tokenizer) -> None:
    text = "One line.\nIts second.\n\nAnother paragraph.\n \n\nThe third, which is the last."
    for wanted in (4, 12, 18):
        head, tail, boundary = parts(tokenizer, text, wanted, 100)
        assert head + tail == text and boundary == "paragraph"
        assert tail.startswith(("Another", "The third"))


def test_a_paragraph_out_of_reach_is_not_looked_for(tokenizer: Tokenizer) -> None:
    head, tail, boundary = parts(tokenizer, "a b c d e f g h i j k l m n\n\no p", 5, 3)
    assert boundary == "token" and (head + tail).startswith("a b c")


def test_no_character_is_cut(tokenizer: Tokenizer) -> None:
    text = "😀é漢字𐍈" * 20
    for wanted in range(1, 60):
        head, tail, boundary = parts(tokenizer, text, wanted, 20)
        assert head + tail == text and "\ufffd" not in head + tail and head and tail and boundary == "token"


def test_both_parts_have_a_token_at_least(tokenizer: Tokenizer) -> None:
    for wanted in (-5, 0, 1, 2, 500):
        head, tail, _ = parts(tokenizer, "ab cd\n\n", wanted, 50)
        assert head and tail


def test_a_text_without_blank_lines_has_no_paragraphs(tokenizer: Tokenizer) -> None:
    tokens, _ = tokenizer.encode_batch(["one\ntwo\nthree"])
    assert not len(paragraph_ends(tokens, tokenizer))
    assert not len(paragraph_ends(np.zeros(0, tokens.dtype), tokenizer))
