"""A `tokenizer.json` with the `tokenizer_config.json` beside it, loaded, checked and used."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _values import change_values

from gristmill.tokenize.definition import added_token
from gristmill.tokenize.encodings import named_definition
from gristmill.tokenize.tokenizer import load_tokenizer
from harness import mutate as change_bytes

CASES = (300, 10_000)
SECONDS = 20.0
EOS = "<|endoftext|>"
LETTERS = "abcdefghijklmnop "


def _content(model: dict[str, Any], eos: int, pre_tokenizer: Any = None) -> dict[str, Any]:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [added_token(EOS, eos)],
            "normalizer": None, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None,
            "model": model}  # fmt: skip


def _contents() -> list[dict[str, Any]]:
    byte = json.loads(named_definition("byte").json)
    vocab = {letter: i for i, letter in enumerate(LETTERS)} | {"ab": 17, EOS: 18}
    bpe = {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]], "unk_token": None, "ignore_merges": False}
    words = {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, EOS: 2}, "unk_token": "[UNK]"}
    pieces = {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "##b": 2, EOS: 3}, "unk_token": "[UNK]",
              "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}  # fmt: skip
    unigram = {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
               "vocab": [["<unk>", 0.0], ["a", -1.0], ["ab", -2.0], [EOS, 0.0]]}  # fmt: skip
    split = {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": False}
    steps = {"type": "Sequence", "pretokenizers": [split, {"type": "Digits", "individual_digits": True}]}
    normalized = {**_content(bpe, 18, steps), "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}}
    return [byte, _content(bpe, 18), normalized, _content(words, 2, {"type": "Whitespace"}), _content(unigram, 3),
            _content(pieces, 3, {"type": "BertPreTokenizer"})]  # fmt: skip


def seeds() -> list[bytes]:
    config = {"eos_token": EOS, "add_bos_token": False}
    pairs: list[Any] = [[content, None] for content in _contents()]
    pairs += [[pairs[1][0], value] for value in (config, {"eos_token": {"content": EOS}}, [], {"eos_token": [1]}, 3)]
    return [json.dumps(pair).encode() for pair in pairs]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    return change_values(rng, seeds) if rng.random() < 0.85 else change_bytes(rng, seeds)


def attempt(data: bytes, folder: Path) -> None:
    try:
        content, config = (json.dumps(part).encode() for part in json.loads(data))
    except (ValueError, TypeError, RecursionError):
        content, config = data, b"null"
    (folder / "tokenizer.json").write_bytes(content)
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    if config != b"null":
        (folder / "tokenizer_config.json").write_bytes(config)
    tokenizer = load_tokenizer(str(folder))
    ids, offsets = tokenizer.encode_batch(["ab a cab", "", "a" * 50])
    assert len(ids) == offsets[-1] and (ids < tokenizer.vocab_size).all() and (ids != tokenizer.eos).all()
    tokenizer.decode(ids)
