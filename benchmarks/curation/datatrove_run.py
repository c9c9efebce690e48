"""The same whole run by datatrove: raw JSONL to token files. Its figures go to stdout as JSON.

python -m curation.datatrove_run INPUTS WORK WORKERS TOKENIZER

Each executor is a pass over the documents; passes are as few as its stages allow. It does less than Gristmill: its
near duplicates are not verified, and no account is kept of what was dropped.
"""

from __future__ import annotations

import json
import re
import sys
import time
import unicodedata
from pathlib import Path
from typing import Any

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    ExactDedupFilter,
    ExactDedupSignature,
    ExactFindDedups,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.formatters.base import BaseFormatter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer
from datatrove.pipeline.writers import JsonlWriter

from curation.cases import NGRAM, SIGNATURES
from curation.datatrove_side import fineweb_filters

_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff]+")
_BLANKS = re.compile(r"[ \t]+$", re.MULTILINE)


class Clean(BaseFormatter):
    """What Gristmill cleans by default, by Python's fastest means."""

    name = "clean"

    def format(self, text: str) -> str:
        """One text."""
        text = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
        return _BLANKS.sub("", _CONTROL.sub("", text)).rstrip()


def _text(document: Any) -> str:
    return str(document.text)


def passes(inputs: str, work: str, tokenizer: str) -> list[tuple[list[Any], int | None]]:
    """The pipelines in order, each with the number of its tasks where it is not the number of workers."""
    buckets, rows = SIGNATURES["minhash 16x8"]
    near = MinhashConfig(n_grams=NGRAM, num_buckets=buckets, hashes_per_bucket=rows)
    exact = ExactDedupConfig(content_getter=_text)
    filtered, unique = f"{work}/filtered", f"{work}/unique"
    first = [JsonlReader(inputs), Clean(), *fineweb_filters(), JsonlWriter(filtered, compression=None)]
    second = [JsonlReader(filtered), ExactDedupFilter(f"{work}/copies", exact), JsonlWriter(unique, compression=None)]
    third = [JsonlReader(unique), MinhashDedupFilter(f"{work}/remove")]
    return [
        ([*first, ExactDedupSignature(f"{work}/hashes", exact)], None),
        ([ExactFindDedups(f"{work}/hashes", f"{work}/copies", exact)], 1),
        ([*second, MinhashDedupSignature(f"{work}/signatures", near)], None),
        ([MinhashDedupBuckets(f"{work}/signatures", f"{work}/pairs", config=near)], buckets),
        ([MinhashDedupCluster(f"{work}/pairs", f"{work}/remove", near)], 1),
        ([*third, DocumentTokenizer(f"{work}/tokens", tokenizer, eos_token="<|endoftext|>", seed=0)], None),
    ]


def main(inputs: str, work: str, workers: str, tokenizer: str) -> None:
    """Run the passes one after the other."""
    start, seconds = time.perf_counter(), []
    for number, (pipeline, tasks) in enumerate(passes(inputs, work, tokenizer)):
        began = time.perf_counter()
        count = tasks or int(workers)
        logs = f"{work}/logs/{number}"
        # fork: workers inherit what is imported, and their CPU time is known to those who wait for them.
        LocalPipelineExecutor(pipeline, count, min(count, int(workers)), logs, start_method="fork").run()
        seconds.append(time.perf_counter() - began)
    tokens = sum(path.stat().st_size for path in Path(f"{work}/tokens").glob("*.ds")) // 2
    documents = sum(path.stat().st_size for path in Path(f"{work}/tokens").glob("*.ds.index")) // 8
    figures = {"seconds": time.perf_counter() - start, "tokens": tokens, "documents": documents, "passes": seconds}
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
