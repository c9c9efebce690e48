"""What pipelines of peers are made of in streams.py: a tokenizer and filters, those of their users or ours."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SEQ_LEN, GROUP = 2048, 256
EOS = 50_256

Ids = npt.NDArray[np.integer[Any]]
Encode = Callable[[list[str]], list[Ids]]
Judge = Callable[[list[str]], list[bool]]


def tiktoken_encoder() -> Encode:
    """A document at a time."""
    from gristmill.tokenize.tokenizer import load_tokenizer

    encoding = load_tokenizer("gpt2", backend="tiktoken")._ready_encoder()._encoding  # type: ignore[attr-defined]
    return lambda texts: [np.array([*encoding.encode_ordinary(text), EOS], np.uint16) for text in texts]


def gigatoken_encoder() -> Encode:
    """Many documents at once."""
    from gristmill.tokenize.tokenizer import load_tokenizer

    tokenizer = load_tokenizer("gpt2")

    def encode(texts: list[str]) -> list[Ids]:
        ids, offsets = tokenizer.encode_ended(texts)
        return np.split(ids, offsets[1:-1])

    return encode


def our_rule(name: str, **options: object) -> Judge:
    import pyarrow as pa

    from gristmill.curate.documents import Documents
    from gristmill.curate.rules import make_rule

    rule = make_rule(name, options)

    def judge(texts: list[str]) -> list[bool]:
        documents = Documents(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
        return [bool(code < 0) for code in rule.judge(documents).codes]

    return judge


def datatrove_repetition() -> Judge:
    from datatrove.data import Document
    from datatrove.pipeline.filters import GopherRepetitionFilter

    rule = GopherRepetitionFilter()
    return lambda texts: [rule.filter(Document(text, "")) is True for text in texts]


class Parts(NamedTuple):
    """What a pipeline of a peer is made of, and how many documents it hands over at once."""

    encode: Encode
    judges: Sequence[Judge]
    group: int

    def tokens(self, texts: list[str]) -> list[Ids]:
        for judge in self.judges:
            texts = [text for text, kept in zip(texts, judge(texts), strict=True) if kept] if texts else []
        return self.encode(texts) if texts else []


@functools.cache
def parts(usual: bool, filtered: bool) -> Parts:
    """`usual`: tiktoken and datatrove, a document at a time, and our language model, which they lack.

    Made in the process that uses them, since their threads do not survive a fork.
    """
    language = [our_rule("language", keep=["en"])] if filtered else []
    if usual:
        return Parts(tiktoken_encoder(), [*language, datatrove_repetition()] if filtered else [], 1)
    repetition = [our_rule("gopher_repetition")] if filtered else []
    return Parts(gigatoken_encoder(), [*language, *repetition], GROUP)


def packed(documents: Iterable[Ids]) -> Iterator[Ids]:
    """Rows of SEQ_LEN tokens, documents end to end."""
    held: list[Ids] = []
    count = 0
    for ids in documents:
        held.append(ids)
        count += len(ids)
        if count >= 64 * SEQ_LEN:
            flat = np.concatenate(held).astype(np.int64)
            whole = len(flat) // SEQ_LEN * SEQ_LEN
            yield from flat[:whole].reshape(-1, SEQ_LEN)
            held, count = [flat[whole:]], len(flat) - whole
