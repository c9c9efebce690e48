"""Real paragraphs, and an engine for queries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill.curate.documents import Documents
from gristmill.engine.inline import InlineEngine

sys.path.append(str(Path(__file__).parent))
from near_texts import batch_of, edited, jaccard_of, real_texts, shingles_of


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[InlineEngine]:
    engine = InlineEngine(1 << 30, tmp_path / "scratch")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., Documents]:
    return batch_of


@pytest.fixture(scope="session")
def texts_of() -> Callable[..., list[str]]:
    return real_texts


@pytest.fixture(scope="session")
def edit() -> Callable[..., str]:
    return edited


@pytest.fixture(scope="session")
def shingles() -> Callable[..., set[tuple[str, ...]]]:
    return shingles_of


@pytest.fixture(scope="session")
def jaccard() -> Callable[..., float]:
    return jaccard_of
