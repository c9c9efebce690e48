"""A store speaks its tokenizer's language."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gristmill as gm
from gristmill.store.kept_tokenizer import as_ids
from gristmill.testing import EOS, tiny_store

TEXTS = ["Grist to the mill.", "An <|endoftext|> in a document stays text.", "äöü 日本語 🙂\n\n  two  blanks", "x"]


def made_with(tokenizer: str, folder: Path) -> gm.Store:
    """A store of TEXTS as they are, in their order."""
    (folder / "a.jsonl").write_text("".join(json.dumps({"id": f"t{i}", "text": t}) + "\n" for i, t in enumerate(TEXTS)))
    source = {"name": "web", "paths": str(folder / "a.jsonl")}
    layout = {"val_fraction": 0, "tokens_per_shard": 30}
    gm.prepare(
        {"out": str(folder / "s"), "sources": [source], "tokenizer": tokenizer, "clean": "none", "store": layout}
    )
    return gm.open(folder / "s")


@pytest.fixture(params=["byte", "gpt2"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> gm.Store:
    return made_with(request.param, tmp_path)


def test_text_is_encoded_as_prepare_encodes_it(store: gm.Store) -> None:
    for text, document in zip(TEXTS, store, strict=True):
        ids = store.encode(text)
        assert ids.dtype == store.dtype and ids.tolist() == document.tokens[:-1].tolist()
        assert store.decode(ids) == store.decode(ids.tolist()) == text
    assert store.encode("").tolist() == [] and store.decode([]) == ""
    assert store.tokenizer.get_vocab_size() == store.eos + 1


def test_a_store_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    bare = tiny_store(tmp_path)
    with pytest.raises(gm.ConfigError, match=r"has no tokenizer\.json beside it"):
        bare.encode("text")
    assert len(bare) == 60 and [document.tokens[-1] for document in bare] == [EOS] * 60


@pytest.mark.parametrize("value", [[-1], [1 << 32], ["a"], [0.5], [[1], [2, 3]]])
def test_what_are_no_ids_is_refused(value: object) -> None:
    with pytest.raises(gm.ConfigError, match="tokens must be token ids"):
        as_ids("tokens", value)  # type: ignore[arg-type]


def test_a_tokenizer_that_was_changed_is_refused(tmp_path: Path) -> None:
    made = made_with("byte", tmp_path)
    path = tmp_path / "s/tokenizer.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(gm.StoreError, match=r"tokenizer\.json is damaged"):
        made.encode("text")
