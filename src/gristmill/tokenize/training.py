"""An own tokenizer: byte-level BPE trained on the user's text, written as a `tokenizer.json`.

Words are split by GPT-2's pattern, which the fast backend knows; every byte is a token, so no text is unknown. The
`tokenizers` library trains: it counts words on all threads, merges the most frequent pair, and settles ties by the
lower ids. So the file is a function of the texts and the library's version: their order, the threads and the run do
not show in it (tests hold that). It takes about 0.4 s a megabyte on one core; memory grows with the number of distinct
words, which is why the text has a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gristmill.core.errors import ConfigError, SourceError
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.tokenize.definition import ENDOFTEXT
from gristmill.tokenize.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# The end of documents and all bytes.
_LEAST_IDS = 257
# Rarer pairs are not merged.
_LEAST_COUNT = 2


@dataclass(frozen=True)
class TrainingReport:
    """What a training read and made; `notes` say what the user asked for and did not get."""

    path: str
    vocab_size: int
    documents: int
    text_bytes: int
    notes: list[str]


def train_tokenizer(
    texts: Iterable[str], out: Address, *, vocab_size: int = 32_000, limit_bytes: int = 1 << 30, overwrite: bool = False
) -> TrainingReport:
    """Train byte-level BPE on `texts` and write it to `out`, which `load_tokenizer` opens.

    `vocab_size` counts all ids: the end of documents, 256 bytes, then merges of pairs that occur more than once. Whole
    documents are read until `limit_bytes` of UTF-8 are reached.
    """
    if place_at(out).exists() and not overwrite:
        raise ConfigError(f"{out} exists already: choose another name, or say overwrite=True.", arguments="overwrite")
    if vocab_size < _LEAST_IDS:
        raise ConfigError(
            f"vocab_size must be at least {_LEAST_IDS} (256 bytes and special tokens), not {vocab_size:,}.",
            arguments="vocab_size",
        )
    taken = _Taken(limit_bytes)
    trained = _trained(taken.of(texts), vocab_size)
    if not taken.bytes:
        raise ConfigError("There is no text to train a tokenizer on: give files that hold some.")
    place_at(out).clear_leftovers()
    place_at(out).write(trained.to_str(pretty=True) + "\n")
    made = load_tokenizer(str(out), eos=ENDOFTEXT)
    notes = [*taken.notes, *_shortfall(made.vocab_size, vocab_size), *filter(None, [made.note])]
    return TrainingReport(str(out), made.vocab_size, taken.documents, taken.bytes, notes)


class _Taken:
    """Counts the texts that are handed on, and stops at the limit."""

    def __init__(self, limit: int) -> None:
        self._limit, self.documents, self.bytes = limit, 0, 0
        self.notes: list[str] = []

    def of(self, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            if self.bytes >= self._limit:
                self.notes.append(f"Text after the first {self.bytes:,} bytes was not read (limit_bytes).")
                return
            try:
                self.bytes += len(text.encode())
            except UnicodeEncodeError as error:
                raise SourceError(f"Document {self.documents} to train on is no valid Unicode: {error}.") from error
            self.documents += 1
            yield text


def _trained(texts: Iterator[str], vocab_size: int) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # not before there is text

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=_LEAST_COUNT,
        special_tokens=[ENDOFTEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer=trainer)
    return tokenizer


def _shortfall(made: int, wanted: int) -> list[str]:
    if made == wanted:
        return []
    return [
        f"Only {made:,} of {wanted:,} ids could be made: no further pair of tokens occurs {_LEAST_COUNT} times; "
        "give more text, or ask for a smaller vocabulary."
    ]
