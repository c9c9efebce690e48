"""A small store whose rules dropped some documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gristmill as gm


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 documents d0 to d39 of the source web, d40 too short for its rule; with the texts of what was dropped."""
    folder = tmp_path_factory.mktemp("figures")
    texts = [f"Document {i} tells of the mill and of its wheel." for i in range(40)] + ["short"]
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    (folder / "raw.jsonl").write_text("\n".join(lines))
    recipe = {"out": str(folder / "store"), "sources": [{"name": "web", "paths": [str(folder / "raw.jsonl")]}],
              "filters": [{"length": {"min_chars": 10}}], "tokenizer": "byte",
              "store": {"val_fraction": 0.2}}  # fmt: skip
    gm.prepare(recipe, progress=False, options=gm.RunOptions(workers=1, keep_dropped=True))
    return folder / "store"
