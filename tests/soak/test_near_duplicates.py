"""Near duplicates of random corpora against every pair of documents, compared by the definition of similarity."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import gristmill as gm


def corpus(rng: random.Random) -> list[str]:
    """Texts of few words, and copies of them with words replaced, removed or moved."""
    words = [f"w{i}" for i in range(rng.choice((30, 200)))]
    texts = [" ".join(rng.choices(words, k=rng.randint(3, 80))) for _ in range(rng.randint(5, 25))]
    for _ in range(rng.randint(5, 50)):
        copied = rng.choice(texts).split(" ")
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            at = rng.randrange(len(copied))
            copied[at : at + rng.choice((0, 1))] = rng.choices(words, k=rng.choice((0, 1))) or copied[:1]
        texts.append(" ".join(copied))
    rng.shuffle(texts)
    return texts


def shingles(text: str, ngram: int) -> set[tuple[str, ...]]:
    words = text.split(" ")
    return {tuple(words[i : i + ngram]) for i in range(max(1, len(words) - ngram + 1))}


def kept_by_definition(texts: list[str], threshold: float, ngram: int) -> list[int]:
    """A document goes exactly if it is near to an earlier one that stays."""
    sets, kept = [shingles(text, ngram) for text in texts], []
    for i, mine in enumerate(sets):
        if not any(len(mine & sets[j]) / len(mine | sets[j]) >= threshold for j in kept):
            kept.append(i)
    return kept


def check_corpus(seed: int, folder: Path) -> int:
    """One random corpus; how many documents went."""
    rng = random.Random(f"corpus {seed}")
    texts, threshold, ngram = corpus(rng), rng.choice((0.6, 0.7, 0.8, 0.9)), rng.choice((1, 3, 5))
    rows = (json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts))
    (folder / "raw.jsonl").write_text("".join(rows))
    # 128 bands of 4 rows miss a pair at 0.6 once in 50 million.
    near = {"threshold": threshold, "ngram": ngram, "permutations": 512, "bands": 128, "rows": 4, "max_bucket": 1000}
    dedup: Any = [{"near": near}]
    sources: Any = [{"name": "a", "paths": [str(folder / "raw.jsonl")]}]
    store: Any = {"val_fraction": 0}
    gm.prepare(gm.Recipe(str(folder / "out"), sources, dedup=dedup, tokenizer="byte", store=store), overwrite=True)
    found = gm.open(folder / "out")
    ids = [int(found.document_id(i)) for i in range(found.num_documents)]
    assert ids == kept_by_definition(texts, threshold, ngram), f"corpus {seed}"
    return len(texts) - len(ids)


def test_near_dedup_of_random_corpora_is_what_all_pairs_say(tmp_path: Path, soak: bool, record: Path | None) -> None:
    corpora = 1_000 if soak else 5
    gone = sum(check_corpus(seed, tmp_path) for seed in range(corpora))
    if record:
        (record / "near.json").write_text(json.dumps({"corpora": corpora, "dropped": gone}) + "\n")
    assert gone > corpora
