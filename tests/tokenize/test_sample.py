"""The start-up check finds the first token on which two backends differ."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.core.errors import ConfigError
from gristmill.tokenize.sample import SAMPLE, digest, require_equal, require_same_text, sample_for


def encoded(*rows: list[int]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.append(0, np.cumsum([len(row) for row in rows]))
    return np.array([id for row in rows for id in row], np.uint32), offsets


def test_equal_ids_pass() -> None:
    require_equal(["a", "b"], encoded([1], [2, 3]), encoded([1], [2, 3]), "Two", "try another")


@pytest.mark.parametrize(
    ("theirs", "said"),
    [([2, 4], "token 1 of 'b' is 3 against 4"), ([2], "token 1 of 'b' is 3 against missing"),
     ([2, 3, 9], "token 2 of 'b' is missing against 9")],
)  # fmt: skip
def test_the_first_difference_is_named_with_its_text(theirs: list[int], said: str) -> None:
    with pytest.raises(ConfigError, match=f"Two differ on the start-up sample: {said}"):
        require_equal(["a", "b"], encoded([1], [2, 3]), encoded([1], theirs), "Two", "try another")


def test_a_text_that_does_not_come_back_is_named() -> None:
    require_same_text("a", "a", "mine")
    with pytest.raises(ConfigError, match="The tokenizer mine: the sample 'a' came back from its ids as 'b'"):
        require_same_text("a", "b", "mine")


def test_a_tokenizers_own_special_texts_are_in_its_sample() -> None:
    content = {"added_tokens": [{"content": "<own>", "id": 7, "special": True}], "model": {"vocab": {"<own>": 7}}}
    texts = sample_for(content, 7)
    assert texts[: len(SAMPLE)] == list(SAMPLE) and {"<own>", "word<own>word", "a <own> b\n<own>"} <= set(texts)


def test_the_digest_tells_ids_and_their_rows_apart() -> None:
    same, moved = encoded([1, 2], [3]), encoded([1], [2, 3])
    assert digest(*same) == digest(*encoded([1, 2], [3])) != digest(*moved)
