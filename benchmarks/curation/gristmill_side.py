"""Gristmill's end of the comparison, stage by stage."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from curation.cases import CASES, CHAIN, FAMILIES, NGRAM, SIGNATURES
from curation.serve import read_texts, serve
from gristmill.curate.chain import Curation
from gristmill.curate.dedup.near import Near, sign
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import Ledger, start_documents
from gristmill.curate.rules import make_rule
from gristmill.sources.batches import BATCH_BYTES
from gristmill.tokenize.tokenizer import encode_batch, load_tokenizer

# Long enough to load every kernel and model, too short to teach a table much.
_SPARK = "The quick brown fox jumps over the lazy dog, and that is all there is to be said of it.\n" * 3


class GristmillSide:
    """Holds the text as the reader would deliver it; every timing is taken in a forked child, which nothing outlives.

    What a child should know of other documents it reads itself: memory that it had from its parent would be copied page
    by page at the first touch, which no run of ours pays.
    """

    def __init__(self) -> None:
        self._batches = {"spark": _batches([{"id": "0", "text": _SPARK}])}
        self._runs: dict[str, Callable[[pa.RecordBatch], Any]] = {}

    def tokenizer(self, path: str) -> None:
        """Write the tokenizer for the other side."""
        Path(path).write_text(load_tokenizer("gpt2").to_json(), encoding="utf-8")

    def load(self, **paths: str) -> dict[str, int]:
        """Read texts by name; the bytes of each."""
        self._batches |= {name: _batches(read_texts(path)) for name, path in paths.items()}
        return {name: sum(_size(batch) for batch in self._batches[name]) for name in paths}

    def warm(self) -> None:
        """Make each case ready: kernels and models are loaded by a short text."""
        for case in CASES:
            self._runs[case] = _run(case)
            self._time(case, "spark")

    def time(self, case: str, texts: list[str]) -> list[float]:
        """The seconds of CPU that a case takes for each text, one after the other."""
        seconds: list[float] = _in_child(lambda: [self._time(case, text) for text in texts])
        return seconds

    def decide(self, family: str, text: str) -> list[str | None]:
        """Why each document goes, or None."""
        rule = make_rule(family, {"variant": "datatrove"})
        verdicts = [rule.judge(Documents(batch)) for batch in self._batches[text]]
        return [verdict.reasons[code] if code >= 0 else None for verdict in verdicts for code in verdict.codes]

    def _time(self, case: str, text: str) -> float:
        run, start = self._runs[case], time.process_time()
        for batch in self._batches[text]:
            run(batch)
        return time.process_time() - start


def _run(case: str) -> Callable[[pa.RecordBatch], Any]:
    """What a case does with a batch."""
    if case in FAMILIES:
        rule = make_rule(case, {"variant": "datatrove"})
        return lambda batch: rule.judge(Documents(batch))
    if case == "chain":
        rules = tuple(make_rule(name, {"variant": "datatrove", **options}) for name, options in CHAIN)
        return lambda batch: Curation(None, rules).curate(start_documents(batch, 0), Ledger())
    if case in SIGNATURES:
        bands, rows = SIGNATURES[case]
        near = Near(permutations=bands * rows, bands=bands, rows=rows, ngram=NGRAM)
        return lambda batch: sign(start_documents(batch, 0).batch, near, {"text": 0})
    tokenizer = load_tokenizer("gpt2")
    return lambda batch: encode_batch(batch, tokenizer)


def _batches(documents: list[dict[str, str]]) -> list[pa.RecordBatch]:
    """Batches of the reader's size and columns."""
    groups: list[list[dict[str, str]]] = [[]]
    size = 0
    for document in documents:
        size += len(document["text"].encode())
        if size > BATCH_BYTES and groups[-1]:
            groups.append([])
            size = len(document["text"].encode())
        groups[-1].append(document)
    return [_batch(group) for group in groups]


def _batch(documents: list[dict[str, str]]) -> pa.RecordBatch:
    count = len(documents)
    ids = pa.array([document["id"] for document in documents])
    texts = pa.array([document["text"] for document in documents], pa.large_string())
    same = pa.array(["text"] * count)
    return pa.record_batch({"id": ids, "source": same, "path": same, "row": pa.array(range(count)), "text": texts})


def _size(batch: pa.RecordBatch) -> int:
    documents = Documents(batch)
    return int(documents.offsets[-1] - documents.offsets[0])


def _in_child(function: Callable[[], Any]) -> Any:
    """What a function gives in a forked child, whose memory is this process's and whose traces are not."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, json.dumps(function()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as reply:
        content = reply.read()
    os.waitpid(child, 0)
    return json.loads(content)


if __name__ == "__main__":
    serve(GristmillSide(), int(sys.argv[1]))
