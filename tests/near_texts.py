"""Batches of documents, real texts with planted near duplicates, and slow obvious references."""

from __future__ import annotations

import bisect
import functools
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from pydoc_data.topics import topics

import pyarrow as pa
import pytest

from gristmill.curate.documents import Documents
from gristmill.engine.inline import InlineEngine

UNSPACED = [
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x3400, 0x9FFF), (0x20000, 0x3FFFF),
]  # fmt: skip


def batch_of(texts: Sequence[str], unit: int = 0, sources: Sequence[str] | None = None) -> Documents:
    """A batch of unit `unit`, rows from 0."""
    columns = {
        "doc": pa.array([unit << 32 | row for row in range(len(texts))], pa.int64()),
        "id": pa.array([f"{unit}-{row}" for row in range(len(texts))]),
        "source": pa.array(sources or ["web"] * len(texts)),
        "path": pa.array(["a.txt"] * len(texts)),
        "text": pa.array(texts, pa.large_string()),
    }
    return Documents(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))


@functools.cache
def kind_of(character: str) -> tuple[bool, bool]:
    """Whether it is a letter, mark or number, and whether of a script without spaces."""
    letter = unicodedata.category(character)[0] in "LMN"
    return letter, any(first <= ord(character) <= last for first, last in UNSPACED)


def words_of(text: str) -> list[str]:
    """The words of a text by their definition, slowly."""
    words, word = [], ""
    for character in [*text, " "]:
        letter, alone = kind_of(character)
        if word and (alone or not letter):
            words.append(word)
            word = ""
        if letter and alone:
            words.append(character)
        elif letter:
            word += character.lower()[0]
    return words


@functools.lru_cache(1000)
def shingles_of(text: str, ngram: int = 5, unit: str = "word") -> set[tuple[str, ...]]:
    """The set of shingles as tuples of units."""
    units = words_of(text)
    if unit == "char":
        blanks = "".join(c.lower()[0] if unicodedata.category(c)[0] in "LMN" else " " for c in text)
        units = list(" ".join(blanks.split()))
    if len(units) < ngram:
        return {tuple(units)} if units else set()
    return {tuple(units[i : i + ngram]) for i in range(len(units) - ngram + 1)}


def jaccard_of(left: str, right: str, ngram: int = 5, unit: str = "word") -> float:
    """The similarity of two texts by their definition."""
    a, b = shingles_of(left, ngram, unit), shingles_of(right, ngram, unit)
    return len(a & b) / len(a | b) if a | b else 0.0


def real_texts(count: int, seed: int = 0) -> list[str]:
    """Pieces of 150 to 400 words of Python's own manual, each different."""
    words = " ".join(topics[key] for key in sorted(topics)).split(" ")
    rng = random.Random(seed)
    texts, at = [], 0
    while len(texts) < count:
        length = rng.randrange(150, 400)
        # Beyond the manual's end it is read again in another rhythm: every 7th word gets a mark.
        texts.append(" ".join(w if i % 7 else f"{w}{at}" for i, w in enumerate(words[at % len(words) :][:length])))
        at += length
    return texts


def edited(text: str, similarity: float, rng: random.Random) -> str:
    """The text with as many words replaced as leave its similarity at or just over `similarity`."""
    words = text.split(" ")
    order = rng.sample(range(len(words)), len(words))

    def with_edits(count: int) -> str:
        gone = set(order[:count])
        return " ".join(f"edit{rng.random()}" if i in gone else word for i, word in enumerate(words))

    first = bisect.bisect_left(range(len(words)), True, key=lambda n: jaccard_of(text, with_edits(n)) < similarity)
    return with_edits(first - 1)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[InlineEngine]:
    """One that runs queries in this process."""
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
