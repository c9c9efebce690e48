"""A store of some hundred kilobytes, and plans over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, make_store: Any) -> gm.Store:
    documents = [[(7 * i + j) % 1000 for j in range(2999)] for i in range(200)]
    root: Path = tmp_path_factory.mktemp("simulated") / "s"
    return gm.open(make_store(root, documents, tokens_per_shard=150_000))


@pytest.fixture
def plan_of(store: gm.Store) -> Callable[..., gm.Plan]:
    """A plan in blocks of 64 KiB, 12 of which are mixed, or with other options."""

    def make(steps: int | None = None, **options: Any) -> gm.Plan:
        options.setdefault("locality", {"block": 512, "window": 4})
        return gm.Plan(store, seq_len=64, batch_size=16, steps=steps, options=options)

    return make
