"""One whole run of `prepare` in a fresh process: raw JSONL to a store. Its figures go to stdout as JSON.

python -m curation.gristmill_run INPUTS OUT WORKERS [profile]
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time
from collections.abc import Mapping
from typing import Any

from curation.cases import CHAIN, NGRAM
from gristmill import prepare
from gristmill.recipe import Recipe, SourceOptions
from gristmill.run import RunOptions

Function = tuple[str, int, str]

# Steps that do not contain each other, by file and function; words are taken out of the rules that ask for them.
STEPS = {
    "read JSONL": ("sources/batches.py", "rebatch"),
    "clean": ("curate/clean.py", "clean"),
    "words (spaCy's)": ("curate/words.py", "words"),
    "load spaCy": ("curate/spacy_words.py", "_chunk_table"),
    "gopher_repetition": ("rules/gopher_repetition.py", "judge"),
    "gopher_quality": ("rules/gopher_quality.py", "judge"),
    "c4": ("rules/c4.py", "judge"),
    "fineweb": ("rules/fineweb.py", "judge"),
    "hash texts and ids": ("curate/ledger.py", "passed"),
    "take what is kept": ("curate/documents.py", "take"),
    "write between stages": ("stages/relation.py", "write"),
    "read between stages": ("stages/relation.py", "batches_of"),
    "ids that come twice": ("stages/pipeline.py", "check_ids"),
    "exact duplicates": ("stages/pipeline.py", "_exact"),
    "MinHash signatures": ("dedup/near.py", "sign"),
    "candidates": ("stages/near.py", "candidates"),
    "verify candidates": ("stages/near.py", "edges"),
    "tokenise": ("tokenize/tokenizer.py", "encode_batch"),
    "load the tokenizer": ("tokenize/tokenizer.py", "load_tokenizer"),
    "write shards": ("stages/pipeline.py", "write"),
    "account of drops": ("stages/pipeline.py", "write_account"),
}
_WORDS = "words (spaCy's)"
_PARQUET = "parquet/core.py"


def recipe(inputs: str, out: str) -> Recipe:
    """Clean, the four families, exact and near dedup, gpt2."""
    filters = [{name: {"variant": "datatrove", **options}} for name, options in CHAIN]
    return Recipe(out, [SourceOptions("text", [inputs])], filters=filters, dedup=["exact", {"near": {"ngram": NGRAM}}])


def steps(stats: Mapping[Function, Any], seconds: float) -> dict[str, float]:
    """Seconds by step, and what is left."""
    found = {step: _cumulative(stats, file, name) for step, (file, name) in STEPS.items()}
    found["write between stages"] = sum(_cumulative(stats, _PARQUET, name) for name in ("write_batch", "write_table"))
    found[_WORDS] -= found["load spaCy"]
    for file, within in _words_by_caller(stats).items():
        found[next(step for step, (own, _) in STEPS.items() if file.endswith(own))] -= within
    return {**found, "all else (imports, starts, files)": seconds - sum(found.values())}


def _row(stats: Mapping[Function, Any], file: str, name: str) -> Any:
    """Calls, times and callers of a function: of those with that name in the file, the one that takes longest."""
    rows = [row for (path, _, function), row in stats.items() if path.endswith(file) and function == name]
    return max(rows, key=lambda row: row[3], default=(0, 0, 0.0, 0.0, {}))


def _cumulative(stats: Mapping[Function, Any], file: str, name: str) -> float:
    return float(_row(stats, file, name)[3])


def _words_by_caller(stats: Mapping[Function, Any]) -> dict[str, float]:
    """Seconds of splitting words inside each file that asks for them."""
    found: dict[str, float] = {}
    for (path, _, _), row in _row(stats, *STEPS[_WORDS])[4].items():
        found[path] = found.get(path, 0) + row[3]
    return found


def main(inputs: str, out: str, workers: str, profile: str = "") -> None:
    """Run it, under a profiler if asked."""
    profiler, start = cProfile.Profile(), time.perf_counter()
    if profile:
        profiler.enable()
    manifest = prepare(recipe(inputs, out), options=RunOptions(workers=int(workers)))
    profiler.disable()
    seconds = time.perf_counter() - start
    tokens = sum(entry.tokens for entries in manifest.splits.values() for entry in entries)
    documents = sum(entry.documents for entries in manifest.splits.values() for entry in entries)
    stats: Any = pstats.Stats(profiler) if profile else None
    spent = steps(stats.stats, seconds) if profile else {}
    print(json.dumps({"seconds": seconds, "tokens": tokens, "documents": documents, "steps": spent}))


if __name__ == "__main__":
    main(*sys.argv[1:])
