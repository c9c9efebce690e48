"""What gigatoken would read and pass over: such tokenizers go to the reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer as HFTokenizer

from gristmill.tokenize import load_tokenizer
from gristmill.tokenize.backends import unsupported

Bpe = Callable[..., HFTokenizer]
Saved = Callable[..., str]

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def split(behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": behavior, "invert": invert}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


KNOWN = {
    "gpt2's pattern": {**BYTES, "use_regex": True},
    "with a space in front": {**BYTES, "use_regex": True, "add_prefix_space": True},
    "a split": sequence(split(), BYTES),
    "an inverted split": sequence(split("Removed", True), BYTES),
}
PASSED_OVER = {
    "nothing": None,
    "no pattern": BYTES,
    "words removed": sequence(split("Removed"), BYTES),
    "digits first": sequence({"type": "Digits", "individual_digits": True}, split(), BYTES),
    "a space after the split": sequence(split(), {**BYTES, "add_prefix_space": True}),
    "two patterns": sequence(split(), {**BYTES, "use_regex": True}),
}


@pytest.mark.parametrize("cut", KNOWN.values(), ids=KNOWN)
def test_ways_to_cut_that_it_knows(cut: dict[str, Any], bpe: Bpe, saved: Saved) -> None:
    tokenizer = load_tokenizer(saved(bpe(), pre_tokenizer=cut))
    assert tokenizer.backend == "gigatoken"


@pytest.mark.parametrize("cut", PASSED_OVER.values(), ids=PASSED_OVER)
def test_ways_to_cut_that_it_would_pass_over(cut: dict[str, Any] | None, bpe: Bpe, saved: Saved) -> None:
    path = saved(bpe(), pre_tokenizer=cut)
    tokenizer = load_tokenizer(str(path))
    assert tokenizer.backend == "tokenizers"
    assert "(pre_tokenizer)" in tokenizer.note
    text = "the cat's 12345 mats\n\n  let"
    theirs = HFTokenizer.from_file(str(path)).encode(text, add_special_tokens=False).ids
    assert tokenizer.encode_batch([text])[0].tolist() == theirs


@pytest.mark.parametrize("flag", ["single_word", "lstrip", "rstrip"])
def test_flags_of_added_tokens(flag: str, bpe: Bpe) -> None:
    content = json.loads(bpe().to_str())
    assert unsupported(content) is None
    content["added_tokens"][-1][flag] = True
    assert unsupported(content) == f"{flag} of the added token '<tool>'"


def test_normalized_matters_with_a_normalizer_only(bpe: Bpe) -> None:
    content = json.loads(bpe().to_str())
    content["added_tokens"][-1]["normalized"] = True
    assert unsupported(content) is None
    content["normalizer"] = {"type": "NFC"}
    assert unsupported(content) == "normalized of the added token '<tool>'"


def test_affixes(bpe: Bpe) -> None:
    content = json.loads(bpe().to_str())
    content["model"]["end_of_word_suffix"] = "</w>"
    assert unsupported(content) == "end_of_word_suffix"
