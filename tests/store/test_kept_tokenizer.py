"""A store speaks its tokenizer's language."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill as gm
from gristmill.store.kept_tokenizer import as_ids
from gristmill.testing import EOS, tiny_store


def test_text_is_encoded_as_prepare_encodes_it(text_store: gm.Store, texts: list[str]) -> None:
    for text, document in zip(texts, text_store, strict=True):
        ids = text_store.encode(text)
        assert ids.dtype == text_store.dtype and ids.tolist() == document.tokens[:-1].tolist()
        assert text_store.decode(ids) == text_store.decode(ids.tolist()) == text
    assert text_store.encode("").tolist() == [] and text_store.decode([]) == ""
    assert text_store.tokenizer.get_vocab_size() == text_store.eos + 1


def test_a_store_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    bare = tiny_store(tmp_path)
    with pytest.raises(gm.ConfigError, match=r"has no tokenizer\.json beside it"):
        bare.encode("text")
    assert len(bare) == 60 and [document.tokens[-1] for document in bare] == [EOS] * 60


@pytest.mark.parametrize("value", [[-1], [1 << 32], ["a"], [0.5], [[1], [2, 3]]])
def test_what_are_no_ids_is_refused(value: object) -> None:
    with pytest.raises(gm.ConfigError, match="tokens must be token ids"):
        as_ids("tokens", value)  # type: ignore[arg-type]


def test_a_tokenizer_that_was_changed_is_refused(tmp_path: Path, made_with: Callable[[str], gm.Store]) -> None:
    made = made_with("byte")
    path = tmp_path / "s/tokenizer.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(gm.StoreError, match=r"tokenizer\.json is damaged"):
        made.encode("text")


def test_the_splits_of_a_store_parse_their_tokenizer_once(tmp_path: Path, made_with: Callable[[str], gm.Store]) -> None:
    made_with("byte")
    assert gm.open(tmp_path / "s/train").tokenizer is gm.open(tmp_path / "s/train").tokenizer
