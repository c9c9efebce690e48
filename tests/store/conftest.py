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


@pytest.fixture
def made_with(texts: list[str], tmp_path: Path) -> Callable[[str], gm.Store]:
    """`made_with(tokenizer)`: a store of the texts as they are, in their order, with the ids t0, t1, ..."""

    def made(tokenizer: str) -> gm.Store:
        rows = (json.dumps({"id": f"t{i}", "text": text}) + "\n" for i, text in enumerate(texts))
        (tmp_path / "a.jsonl").write_text("".join(rows))
        source = {"name": "web", "paths": str(tmp_path / "a.jsonl")}
        layout = {"val_fraction": 0, "tokens_per_shard": 30}
        recipe = {"sources": [source], "tokenizer": tokenizer, "clean": "none", "store": layout}
        gm.prepare({"out": str(tmp_path / "s"), **recipe})
        return gm.open(tmp_path / "s")

    return made


@pytest.fixture(params=["byte", "gpt2"])
def text_store(request: pytest.FixtureRequest, made_with: Callable[[str], gm.Store]) -> gm.Store:
    """The store of the texts, by two tokenizers."""
    return made_with(request.param)
