from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer as HFTokenizer
from tokenizers import models, pre_tokenizers

from gristmill.core.errors import ConfigError
from gristmill.tokenize import Tokenizer, load_tokenizer
from gristmill.tokenize.definition import content_fingerprint, is_lossless

Bpe = Callable[..., HFTokenizer]
Saved = Callable[..., str]

EOS = "</s>"


@pytest.fixture
def content(bpe: Bpe) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(bpe().to_str())
    return parsed


class TestFingerprint:
    def test_layout_and_trimmings_do_not_count(self, content: dict[str, Any]) -> None:
        before = content_fingerprint(content, 320)
        content.update(post_processor=None, decoder=None, truncation={"max_length": 3})
        model = content["model"]
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
        model["vocab"] = dict(sorted(model["vocab"].items()))
        model["dropout"] = 0.5
        assert content_fingerprint(content, 320) == before

    def test_vocabulary(self, content: dict[str, Any]) -> None:
        before, vocab = content_fingerprint(content, 320), content["model"]["vocab"]
        vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
        assert content_fingerprint(content, 320) != before

    def test_merges(self, content: dict[str, Any]) -> None:
        before = content_fingerprint(content, 320)
        content["model"]["merges"].reverse()
        assert content_fingerprint(content, 320) != before

    def test_splitting_and_normalising(self, content: dict[str, Any]) -> None:
        cut = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
        variants = [content, {**content, "pre_tokenizer": cut}, {**content, "normalizer": {"type": "NFC"}}]
        assert len({content_fingerprint(variant, 320) for variant in variants}) == 3

    def test_eos(self, content: dict[str, Any]) -> None:
        assert content_fingerprint(content, 320) != content_fingerprint(content, 321)


def test_lossless_means_bytes_in_and_out(content: dict[str, Any]) -> None:
    assert is_lossless(content)
    assert not is_lossless({**content, "normalizer": {"type": "Lowercase"}})
    assert not is_lossless({**content, "decoder": None})


class TestNoModelCanForgeAnEos:
    """Each of these tokenizers makes an EOS out of the text `</s>` when it encodes by itself."""

    def load(self, tokenizer: HFTokenizer, saved: Saved) -> Tokenizer:
        (id,) = (id for text, id in tokenizer.get_vocab().items() if text == EOS)
        assert id in tokenizer.encode(f"ab {EOS} a", add_special_tokens=False).ids
        return load_tokenizer(saved(tokenizer), eos=EOS)

    def ids(self, tokenizer: Tokenizer) -> list[int]:
        found: list[int] = tokenizer.encode_batch([f"ab {EOS} a"])[0].tolist()
        return found

    def test_unigram_pieces(self, saved: Saved) -> None:
        pieces = [("<unk>", 0.0), (EOS, 0.0), *((letter, -3.0) for letter in "ab </s>")]
        loaded = self.load(HFTokenizer(models.Unigram(pieces, 0, False)), saved)
        assert loaded.eos == 1
        assert loaded.eos not in self.ids(loaded)

    def test_whole_words(self, saved: Saved) -> None:
        tokenizer = HFTokenizer(models.WordLevel({"[UNK]": 0, EOS: 1, "ab": 2, "a": 3}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        assert self.ids(self.load(tokenizer, saved)) == [2, 0, 3]

    def test_merges(self, bpe: Bpe, saved: Saved) -> None:
        tokenizer = bpe()
        parsed = json.loads(tokenizer.to_str())
        vocab = parsed["model"]["vocab"]
        vocab.update({"</": 400, "s>": 401, EOS: 402})
        parsed["model"]["merges"] += [["<", "/"], ["s", ">"], ["</", "s>"]]
        parsed["model"]["ignore_merges"] = True
        parsed["pre_tokenizer"]["use_regex"] = False
        parsed["added_tokens"] = []
        plain = HFTokenizer.from_str(json.dumps(parsed))
        plain.add_special_tokens([EOS])
        loaded = self.load(plain, saved)
        assert loaded.eos == 402
        assert loaded.eos not in self.ids(loaded)
        assert loaded.decode(self.ids(loaded)) == f"ab {EOS} a"

    def test_a_word_that_is_the_eos_with_ignore_merges(self, bpe: Bpe, saved: Saved) -> None:
        parsed = json.loads(bpe("[a-z]+|</s>|[^a-z]").to_str())
        parsed["model"]["vocab"][EOS] = 400
        parsed["model"]["ignore_merges"] = True
        loaded = self.load(HFTokenizer.from_str(json.dumps(parsed)), saved)
        assert loaded.eos not in self.ids(loaded)
        assert loaded.decode(self.ids(loaded)) == f"ab {EOS} a"

    def test_the_unknown_token_cannot_be_the_eos(self, saved: Saved) -> None:
        tokenizer = HFTokenizer(models.WordLevel({EOS: 0, "a": 1}, unk_token=EOS))
        with pytest.raises(ConfigError, match="also its token for unknown text"):
            load_tokenizer(saved(tokenizer), eos=EOS)
