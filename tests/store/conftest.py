"""A store of a few texts, made by `prepare`, for tests of what a store says of its documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill as gm


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return ["Grist to the mill.", "An <|endoftext|> in a document stays text.", "äöü 日本語 🙂\n\n  two  blanks", "x"]


def _make(folder: Path, texts: list[str], tokenizer: str) -> Path:
    """A store of the texts as they are, in their order, with the ids t0, t1, ..."""
    rows = (json.dumps({"id": f"t{i}", "text": text}) + "\n" for i, text in enumerate(texts))
    (folder / "a.jsonl").write_text("".join(rows))
    source = {"name": "web", "paths": str(folder / "a.jsonl")}
    layout = {"val_fraction": 0, "tokens_per_shard": 30}
    recipe = {"sources": [source], "tokenizer": tokenizer, "clean": "none", "store": layout}
    gm.prepare({"out": str(folder / "s"), **recipe})
    return folder / "s"


@pytest.fixture
def made_with(texts: list[str], tmp_path: Path) -> Callable[[str], gm.Store]:
    """`made_with(tokenizer)`: a store of the texts that a test may change."""
    return lambda tokenizer: gm.open(_make(tmp_path, texts, tokenizer))


@pytest.fixture(scope="session", params=["byte", "gpt2"])
def _text_folder(request: pytest.FixtureRequest, texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make(tmp_path_factory.mktemp("texts"), texts, request.param)


@pytest.fixture
def text_store(_text_folder: Path) -> gm.Store:
    """The store of the texts, by two tokenizers: opened anew for each test, which only reads it."""
    return gm.open(_text_folder)
