"""A recipe's YAML: by its values, and by its bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from _values import change_values

from gristmill.recipe import Recipe, read_recipe
from harness import mutate as change_bytes

CASES = (300, 100_000)
SOURCE = {"name": "web", "paths": ["raw/*.jsonl"], "text": "text", "id": "id", "fields": ["url"], "documents": "line",
          "format": "jsonl", "encoding": "utf-8", "priority": 1}  # fmt: skip
WHOLE = {
    "out": "data", "sources": [SOURCE, {"name": "b", "paths": "b"}], "seed": 3, "tokenizer": "byte", "eos": 256,
    "clean": {"unicode": "nfc", "control": True, "ftfy": False, "redact": ["email", "ip"]},
    "filters": [{"length": {"min_chars": 3, "max_words": 10}}, "gopher_quality", {"c4": {"skip": ["javascript"]}},
                {"gopher_repetition": {"top_n_grams": [[2, 0.2], [3, 0.18]]}}, {"language": {"keep": ["en"]}},
                {"code_quality": {"extensions": [".py"], "max_line": 100}}, {"fineweb": {}}],
    "dedup": [{"exact": {"keep": "first"}}, {"lines": {"unit": "line", "min_chars": 9}},
              {"near": {"threshold": 0.8, "permutations": 128, "ngram": 5, "bands": 16, "rows": 8, "max_bucket": 9}}],
    "decontaminate": {"paths": ["eval.jsonl"], "ngram": 13, "min_words": 8, "fields": ["q"]},
    "mix": {"weights": {"web": 0.25, "b": 0.75}, "target": 100, "unit": "documents"},
    "store": {"tokens_per_shard": 1000, "val_fraction": 0.1, "compression": "zstd"}, "shuffle": True,
    "on_error": "skip",
}  # fmt: skip
SMALL = {"out": "o", "sources": [{"name": "a", "paths": ["b"]}]}
# Found before: each was another error than ours, or no error at all.
FOUND = [
    *({**SMALL, "dedup": dedup} for dedup in ([True], [[None]], [{"near": {"permutations": 2**31}}], [{"near": 3}])),
    *({**SMALL, "tokenizer": value} for value in (1, None, [])),
    {**SMALL, "sources": [{"name": "a"}]}, {**SMALL, "out": None}, {**SMALL, "filters": [[None]]},
    {**SMALL, "sources": [{"name": "a", "paths": ["b"], "encoding": "a\0b"}]},
]  # fmt: skip
TEXTS = (
    b"out: a\nout: b\nsources: [{name: a, paths: b}]\n",
    b"out: 2001-99-99\n",
    b"a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n"
    b"d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d]\n"
    b"f: &f [*e, *e, *e, *e, *e, *e, *e, *e]\ng: &g [*f, *f, *f, *f, *f, *f, *f, *f]\nout: *g\nsources: *g\n",
    b"out: &a [*a]\nsources: *a\n",
    b"out: " + b"[" * 2_000,
    b"out: " + b"9" * 5_000,
    b'out: "\\0"\nsources: [{name: "\\ud800", paths: b}]\n',
    b"? {a: b}\n: c\n? [d]\n: e\n",
    b"!!python/object/apply:os.system [true]\n",
    b"\xff\xfeo\0u\0t\0",
)


def seeds() -> list[bytes]:
    return [json.dumps(value).encode() for value in (WHOLE, SMALL, *FOUND)] + list(TEXTS)


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    kept = seeds[: -len(TEXTS)]
    return change_values(rng, kept) if rng.random() < 0.7 else change_bytes(rng, seeds)


def attempt(data: bytes, folder: Path) -> None:
    path = folder / "recipe.yaml"
    path.write_bytes(data)
    recipe = read_recipe(path)
    assert isinstance(recipe, Recipe)
    json.dumps(recipe.content)
