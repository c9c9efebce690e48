"""The texts of a benchmark run: all of it, a share for the slower side, the rest, parts for two workers, ten times."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus import Document, Text, evenly, write

_WORD = re.compile(r"\b[a-z]{4,}\b")


@dataclass(frozen=True)
class Texts:
    """Where each text lies."""

    whole: Path
    share: Path
    rest: Path
    parts: Path
    large: Path
    documents: list[str]


def lay_out(text: Text, share_bytes: int, copies: int, folder: Path) -> Texts:
    """Write the texts of a run below `folder`."""
    documents = [(row["id"], row["text"]) for row in text.documents()]
    made = Texts(text.path, folder / "share.jsonl", folder / "rest.jsonl", folder / "parts", folder / "large",
                 [name for name, _ in documents])  # fmt: skip
    share = evenly(documents, share_bytes)
    names = {name for name, _ in share}
    write(made.share, share)
    write(made.rest, [document for document in documents if document[0] not in names])
    for path in (made.parts, made.large):
        path.mkdir(exist_ok=True)
    for part in range(2):
        write(made.parts / f"{part}.jsonl", documents[part::2])
    for copy in range(copies):
        write(made.large / f"{copy:02d}.jsonl", reworded(documents, copy))
    return made


def reworded(documents: Sequence[Document], copy: int) -> Iterator[Document]:
    """The documents with words of four letters or more exchanged for others of the same length, by a seed.

    What rules look at stays as it was (lengths, lines, short words, signs); no text is near to its original.
    """
    other = _exchange({word for _, text in documents for word in _WORD.findall(text)}, copy)
    for name, text in documents:
        yield f"{copy}/{name}", _WORD.sub(lambda found: other[found[0]], text) if copy else text


def _exchange(words: set[str], seed: int) -> dict[str, str]:
    """Each word's stand-in: a permutation of the words of each length."""
    by_length = defaultdict(list)
    for word in sorted(words):
        by_length[len(word)].append(word)
    rng = random.Random(seed)
    other: dict[str, str] = {}
    for group in by_length.values():
        other.update(zip(group, rng.sample(group, len(group)), strict=True))
    return other


def text_bytes(path: Path) -> int:
    """The bytes of all texts in a JSONL file or a folder of them."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    return sum(len(json.loads(line)["text"].encode()) for file in files for line in file.open(encoding="utf-8"))
