"""datatrove's end of the comparison, stage by stage. Runs in .venv-datatrove, where Gristmill is not installed."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from datasketch import MinHash
from datatrove.data import Document
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.filters.base_filter import get_filter_result
from datatrove.pipeline.tokens import DocumentTokenizer
from rensa import RMinHash

from curation.cases import FAMILIES, LIBRARIES, NGRAM, SIGNATURES
from curation.serve import read_texts, serve

_EOS = "<|endoftext|>"


def filters() -> dict[str, Any]:
    """The four families with datatrove's own limits."""
    return {
        "gopher_quality": GopherQualityFilter(),
        "gopher_repetition": GopherRepetitionFilter(),
        "c4": C4QualityFilter(),
        "fineweb": FineWebQualityFilter(),
    }


def fineweb_filters() -> list[Any]:
    """The filters in the order and with the options that made FineWeb."""
    without_punctuation = C4QualityFilter(filter_no_terminal_punct=False)
    return [GopherRepetitionFilter(), GopherQualityFilter(), without_punctuation, FineWebQualityFilter()]


class DatatroveSide:
    """Holds texts as Python strings, as datatrove's readers deliver them."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._families = filters()
        self._runs: dict[str, Callable[[list[Document]], None]] = {}

    def versions(self) -> dict[str, str]:
        """What was compared with."""
        return {name: version(name) for name in ("datatrove", "spacy", "tokenizers", "datasketch", "rensa")}

    def load(self, tokenizer: str, **paths: str) -> None:
        """Read texts by name, and make each case ready."""
        self._texts = {name: [row["text"] for row in read_texts(path)] for name, path in paths.items()}
        self._runs = {name: _each_by(self._families[name]) for name in FAMILIES}
        self._runs["chain"] = _chain(fineweb_filters())
        self._runs |= {case: _signatures(*shape) for case, shape in SIGNATURES.items()}
        self._runs["tokenise"] = _tokenise(tokenizer)
        self._runs |= dict(zip(LIBRARIES, (_datasketch, _rensa), strict=True))

    def time(self, case: str, text: str) -> float:
        """The seconds of CPU that a case takes for a text."""
        documents = [Document(text=content, id=str(row)) for row, content in enumerate(self._texts[text])]
        start = time.process_time()
        self._runs[case](documents)
        return time.process_time() - start

    def decide(self, family: str, text: str) -> list[str | None]:
        """Why each document goes, or None."""
        rule = self._families[family]
        answers = [get_filter_result(rule.filter(Document(text=content, id="0"))) for content in self._texts[text]]
        return [None if kept else reason for kept, reason in answers]


def _each_by(rule: Any) -> Callable[[list[Document]], None]:
    def run(documents: list[Document]) -> None:
        for document in documents:
            rule.filter(document)

    return run


def _chain(rules: Sequence[Any]) -> Callable[[list[Document]], None]:
    """Each document by one rule after the other, until one drops it."""

    def run(documents: list[Document]) -> None:
        for document in documents:
            all(get_filter_result(rule.filter(document))[0] for rule in rules)

    return run


def _signatures(buckets: int, rows: int) -> Callable[[list[Document]], None]:
    config = MinhashConfig(n_grams=NGRAM, num_buckets=buckets, hashes_per_bucket=rows)
    step = MinhashDedupSignature(tempfile.gettempdir(), config)

    def run(documents: list[Document]) -> None:
        for document in documents:
            shingles = step.get_shingles(document.text)
            if shingles.size:
                step.get_signature(shingles)

    return run


def _tokenise(path: str) -> Callable[[list[Document]], None]:
    """datatrove's own loop: batches to the tokenizer, ids to a file."""

    def run(documents: list[Document]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            step = DocumentTokenizer(folder, path, eos_token=_EOS, shuffle_documents=False, batch_size=1000)
            step.tokenizer = tokenizer
            step.write_unshuffled(iter(documents), "tokens")

    tokenizer = DocumentTokenizer(tempfile.gettempdir(), path, eos_token=_EOS).tokenizer
    return run


def _shingles(text: str) -> list[str]:
    words = text.lower().split()
    return [" ".join(words[start : start + NGRAM]) for start in range(len(words) - NGRAM + 1)]


def _datasketch(documents: list[Document]) -> None:
    for document in documents:
        signature = MinHash(num_perm=128)
        signature.update_batch([shingle.encode() for shingle in _shingles(document.text)])


def _rensa(documents: list[Document]) -> None:
    for document in documents:
        signature = RMinHash(num_perm=128, seed=0)
        signature.update(_shingles(document.text))
        signature.digest()


if __name__ == "__main__":
    serve(DatatroveSide(), int(sys.argv[1]))
