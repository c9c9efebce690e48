from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from gristmill.tokenize import Tokenizer as OurTokenizer
from gristmill.tokenize import load_tokenizer

TEXT = [
    "the cat sat on the mat, the dog can't",
    "let us see: 1 12 123 and <b>bold</b> words\n\n  indented",
] * 5


def byte_level_bpe(split: str | None = None) -> Tokenizer:
    """A small byte-level BPE; with `split`, words are cut by that pattern and not by GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    if split is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        cut = pre_tokenizers.Split(Regex(split), "isolated")
        plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, plain])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=sorted(alphabet), show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|pad|>"])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path, **changes: Any) -> Path:
    """Write a `tokenizer.json`, with top-level entries or entries of its model changed."""
    content = json.loads(tokenizer.to_str())
    for key, value in changes.items():
        (content if key in content else content["model"])[key] = value
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def bpe() -> Callable[..., Tokenizer]:
    """Makes small byte-level BPEs."""
    return byte_level_bpe


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., str]:
    """Saves a tokenizer and gives the path of its file."""
    return lambda tokenizer, **changes: str(save(tokenizer, tmp_path, **changes))


@pytest.fixture(scope="session")
def gpt2() -> OurTokenizer:
    return load_tokenizer("gpt2")


@pytest.fixture(scope="session")
def byte() -> OurTokenizer:
    return load_tokenizer("byte")


@pytest.fixture
def known_json(tmp_path: Path) -> Path:
    """A `tokenizer.json` that gigatoken can run."""
    return save(byte_level_bpe(), tmp_path)


@pytest.fixture
def unknown_json(tmp_path: Path) -> Path:
    """A `tokenizer.json` whose pattern gigatoken does not know."""
    return save(byte_level_bpe("[a-z]+|[^a-z]+"), tmp_path)
