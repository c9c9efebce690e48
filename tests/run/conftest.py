"""A small corpus of text, and `prepare` on it with the byte tokenizer unless a test says otherwise."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.run import prepare


class Notes:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.stages: list[list[Any]] = []

    def start(self, what: str, total: int, unit: str = "bytes") -> None:
        self.stages.append([what, total, 0])

    def advance(self, amount: int) -> None:
        self.stages[-1][2] += amount

    def note(self, text: str) -> None:
        self.notes.append(text)


def prepared(
    out: Path, *paths: Path | str, notes: Notes | None = None, overwrite: bool = False, **options: Any
) -> Path:
    """Prepare `paths` as the source `web` (or `sources`) into `out`, texts as they are unless `options` (of store and
    recipe) say otherwise."""
    store = StoreOptions(
        **{name: options.pop(name) for name in ("tokens_per_shard", "val_fraction") if name in options}
    )
    sources = options.pop("sources", None) or [SourceOptions("web", [str(path) for path in paths])]
    recipe = Recipe(str(out), sources, store=store, **{"tokenizer": "byte", "clean": None, "dedup": (), **options})
    prepare(recipe, overwrite=overwrite, progress=notes)
    return out


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """`make("out", path, ..., tokens_per_shard=, tokenizer=, ...)`: a store below the test's folder."""
    return lambda out, *paths, **options: prepared(tmp_path / out, *paths, **options)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """120 texts of 1 to 100 letters, with line ends, letters of several bytes and a forged EOS among them."""
    rng = random.Random(0)
    made = ["".join(rng.choices("abc é\n😀", k=rng.randint(1, 100))) for _ in range(118)]
    return [*made, "one <|endoftext|> two", "<|endoftext|>"]


@pytest.fixture(scope="session")
def shared_corpus(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Path:
    """The texts as files `000.txt`, `001.txt`, ...: to be read only."""
    folder = tmp_path_factory.mktemp("shared") / "corpus"
    folder.mkdir()
    for i, text in enumerate(texts):
        (folder / f"{i:03d}.txt").write_text(text, encoding="utf-8", newline="")
    return folder


@pytest.fixture
def corpus(tmp_path: Path, shared_corpus: Path) -> Path:
    """A copy of the texts that a test may change."""
    return Path(shutil.copytree(shared_corpus, tmp_path / "corpus"))


@pytest.fixture(scope="session", params=["byte", "gpt2"])
def whole_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_corpus: Path) -> Path:
    """All of the texts in train, in several shards, by either tokenizer."""
    out = tmp_path_factory.mktemp("whole") / request.param
    return prepared(out, shared_corpus, tokenizer=request.param, val_fraction=0, tokens_per_shard=1000)
