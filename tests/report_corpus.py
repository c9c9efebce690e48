"""A small corpus with everything that a report shows, hostile documents among them."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOSTILE = (
    "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\"> \u202egnirts\u2067 שלום "
)
ENDLESS = HOSTILE + "x" * 1_000_000


def words(seed: str, count: int) -> str:
    """Words of a language of its own: no two texts are near each other."""
    made = random.Random(seed)
    return " ".join("".join(made.choices(string.ascii_lowercase, k=made.randint(2, 8))) for _ in range(count))


def _web() -> Iterator[dict[str, object]]:
    for i in range(60):
        where = {"url": f"https://www.site{i % 3}.example/{i}", "license": "MIT" if i % 2 else None}
        yield {"id": f"web-{i}", "text": words(f"web {i}", 40 + 2 * i), **where}
    for i in range(6):
        yield {"id": f"near-{i}", "text": words("web 0", 40) + f" changed{i}", "url": "https://copy.example/"}
    yield {"id": "again", "text": words("web 1", 42)}
    yield {"id": "short", "text": "too short"}
    yield {"id": "<b>hostile</b>", "text": ENDLESS, "url": "javascript:alert(1)", "license": "<i>bad</i>\u202e"}
    yield {"id": "kept\u202e<b>", "text": HOSTILE + words("kept", 50), "url": "https://<img src=x>/"}


def recipe(folder: Path, out: str, min_words: int = 20) -> dict[str, object]:
    """The recipe of the corpus in `folder`."""
    return {
        "out": str(folder / out),
        "sources": [{"name": "web", "paths": [str(folder / "web.jsonl")], "fields": ["url", "license"]},
                    {"name": "books", "paths": [str(folder / "books.jsonl")]}],
        "filters": [{"length": {"min_words": min_words, "max_chars": 100_000}}, {"length": {"max_lines": 10_000}}],
        "dedup": ["exact", "near"],
        "tokenizer": "byte",
        "store": {"val_fraction": 0.1},
    }  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A store and the page of its report."""

    root: Path
    page: Path

    @property
    def text(self) -> str:
        return self.page.read_text()


def write_corpus(folder: Path) -> None:
    """The files that `recipe` reads."""
    (folder / "web.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _web()))
    books = ({"id": f"book-{i}", "text": words(f"book {i}", 900)} for i in range(5))
    (folder / "books.jsonl").write_text("".join(json.dumps(row) + "\n" for row in books))
