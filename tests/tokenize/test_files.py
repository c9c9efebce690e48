from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
from tokenizers import Tokenizer as HFTokenizer

from gristmill.core.errors import ConfigError
from gristmill.tokenize import load_tokenizer

Bpe = Callable[..., HFTokenizer]
Saved = Callable[..., str]


def write_config(path: Path, eos: object) -> None:
    (path.parent / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))


def test_eos_by_its_usual_name(known_json: Path) -> None:
    vocab = HFTokenizer.from_file(str(known_json)).get_vocab()
    assert load_tokenizer(str(known_json)).eos == vocab["<|endoftext|>"]


@pytest.mark.parametrize("eos", ["<|pad|>", {"content": "<|pad|>", "lstrip": False}])
def test_eos_from_the_config_beside_it(known_json: Path, eos: object) -> None:
    write_config(known_json, eos)
    vocab = HFTokenizer.from_file(str(known_json)).get_vocab()
    assert load_tokenizer(str(known_json)).eos == vocab["<|pad|>"]


def test_eos_given_beats_the_config(known_json: Path) -> None:
    write_config(known_json, "<|pad|>")
    id = HFTokenizer.from_file(str(known_json)).token_to_id("<|endoftext|>")
    assert load_tokenizer(str(known_json), eos="<|endoftext|>").eos == id
    assert load_tokenizer(str(known_json), eos=id).eos == id


def test_two_candidates_are_ambiguous(bpe: Bpe, saved: Saved) -> None:
    tokenizer = bpe()
    tokenizer.add_special_tokens(["</s>"])
    with pytest.raises(ConfigError, match=r"several could end a document .*give eos="):
        load_tokenizer(saved(tokenizer))


def test_no_candidate_lists_the_added_tokens(bpe: Bpe, saved: Saved) -> None:
    tokenizer = HFTokenizer.from_str(bpe().to_str().replace("<|endoftext|>", "<|stop|>"))
    with pytest.raises(ConfigError, match=r"none has a usual name.*<\|stop\|>"):
        load_tokenizer(saved(tokenizer))


def test_an_eos_that_is_no_token(known_json: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean '<\|pad\|>'"):
        load_tokenizer(str(known_json), eos="<|pda|>")
    with pytest.raises(ConfigError, match="eos=99999 is none of its"):
        load_tokenizer(str(known_json), eos=99999)


def test_an_ordinary_token_cannot_end_documents(known_json: Path) -> None:
    with pytest.raises(ConfigError, match="is an ordinary token"):
        load_tokenizer(str(known_json), eos="the")
    with pytest.raises(ConfigError, match="is an ordinary token"):
        load_tokenizer(str(known_json), eos="a")


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"hello": 1}')
    with pytest.raises(ConfigError, match=r"is not a tokenizer\.json"):
        load_tokenizer(str(path))


def test_a_directory_without_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no tokenizer\.json"):
        load_tokenizer(str(tmp_path))


def test_a_hub_name_from_the_cache(known_json: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(repository: str, file: str, local_files_only: bool) -> str:
        assert (repository, local_files_only) == ("org/name", True)
        return str(known_json.parent / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert load_tokenizer("org/name").name == "org/name"


def test_a_hub_name_offline_says_what_to_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(repository: str, file: str, local_files_only: bool) -> str:
        raise ConnectionError("no network in this test")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(ConfigError, match=r"tokenizer\.json; bring that file to this machine"):
        load_tokenizer("org/name")


def test_added_tokens_that_contradict_the_vocabulary(bpe: Bpe, saved: Saved) -> None:
    added = json.loads(bpe().to_str())["added_tokens"]
    added[0]["id"] += 50
    with pytest.raises(ConfigError, match="but is read as"):
        load_tokenizer(saved(bpe(), added_tokens=added))


@pytest.mark.parametrize("data", [b"\x93\xff\0\1" * 30, b"\0" * 100, b"[" * 10_000, b"", b"[]", b"3", b'{"model": {}}'])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rand.bin").write_bytes(data)
    with pytest.raises(ConfigError, match=r"rand\.bin"):
        load_tokenizer(str(tmp_path / "rand.bin"))


@pytest.mark.parametrize("config", ["[]", "3", '{"eos_token": [1]}', '{"eos_token": {"content": 3}}', "{", "\xff"])
def test_a_config_that_makes_no_sense_is_named(known_json: Path, config: str) -> None:
    (known_json.parent / "tokenizer_config.json").write_bytes(config.encode("latin-1"))
    if config in ("[]", "3"):
        assert load_tokenizer(str(known_json)).eos
    else:
        with pytest.raises(ConfigError, match=r"tokenizer_config\.json"):
            load_tokenizer(str(known_json))


def test_what_a_library_raises_over_a_tokenizer_is_one_sentence(known_json: Path) -> None:
    content = json.loads(known_json.read_text())
    content["model"] = {"type": "WordLevel", "vocab": {"a": 0, "<|endoftext|>": 1}, "unk_token": "none of these"}
    content["added_tokens"] = [{**content["added_tokens"][0], "content": "<|endoftext|>", "id": 1}]
    known_json.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="cannot"):
        load_tokenizer(str(known_json))
