"""An own tokenizer: byte-level BPE trained on the user's text, written as a `tokenizer.json`.

Words are split by GPT-2's pattern, which the fast backend knows; every byte is a token, so no text is unknown. The
`tokenizers` library trains: it counts words on all threads, merges the most frequent pair, and settles ties by the
lower ids. So the file is a function of the texts and the library's version: their order, the threads and the run do
not show in it (tests hold that). It takes about 0.4 s a megabyte on one core; memory grows with the number of distinct
words, which is why the text has a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.core.errors import ConfigError, SourceError
from gristmill.places.door import place_at
from gristmill.tokenize.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT = "<|endoftext|>"
LIMIT_BYTES = 1 << 30
_BYTES = 256


@dataclass(frozen=True)
class TrainingReport:
    """What a training read and made; `notes` say what the user asked for and did not get."""

    path: str
    vocab_size: int
    documents: int
    text_bytes: int
    notes: list[str]


def train_tokenizer(
    texts: Iterable[str],
    out: Path,
    *,
    vocab_size: int = 32_000,
    special_tokens: Sequence[str] = (END_OF_TEXT,),
    min_frequency: int = 2,
    limit_bytes: int = LIMIT_BYTES,
    overwrite: bool = False,
) -> TrainingReport:
    """Train byte-level BPE on `texts` and write it to `out`, which `load_tokenizer` opens.

    `vocab_size` counts all ids: special tokens (the first of which ends documents), 256 bytes, then merges of pairs
    that occur at least `min_frequency` times. Whole documents are read until `limit_bytes` of UTF-8 are reached.
    """
    _check(out, vocab_size, special_tokens, min_frequency, limit_bytes, overwrite)
    taken = _Taken(limit_bytes)
    trained = _trained(taken.of(texts), vocab_size, special_tokens, min_frequency)
    if not taken.bytes:
        raise ConfigError("There is no text to train a tokenizer on: give files that hold some.")
    place_at(out).clear_leftovers()
    place_at(out).write(trained.to_str(pretty=True) + "\n")
    made = load_tokenizer(str(out), eos=special_tokens[0])
    notes = [*taken.notes(), *_shortfall(made.vocab_size, vocab_size, min_frequency), *filter(None, [made.note])]
    return TrainingReport(str(out), made.vocab_size, taken.documents, taken.bytes, notes)


def _check(
    out: Path, vocab_size: int, special_tokens: Sequence[str], min_frequency: int, limit_bytes: int, overwrite: bool
) -> None:
    if place_at(out).exists() and not overwrite:
        raise ConfigError(f"{out} exists already: choose another name, or say overwrite=True.", arguments="overwrite")
    if not special_tokens or not all(special_tokens) or len(set(special_tokens)) < len(special_tokens):
        raise ConfigError("special_tokens must be different, not empty, and at least one: the first ends documents.")
    least = _BYTES + len(special_tokens)
    if vocab_size < least:
        raise ConfigError(
            f"vocab_size must be at least {least} (256 bytes and special tokens), not {vocab_size:,}.",
            arguments="vocab_size",
        )
    if min_frequency < 1 or limit_bytes < 1:
        raise ConfigError("min_frequency and limit_bytes must be above 0.")


@dataclass
class _Taken:
    """Counts the texts that are handed on, and stops at the limit."""

    limit: int
    documents: int = 0
    bytes: int = 0
    _left: list[str] = field(default_factory=list)

    def of(self, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            if self.bytes >= self.limit:
                self._left.append(f"Text after the first {self.bytes:,} bytes was not read (limit_bytes).")
                return
            self.bytes += self._size(text)
            self.documents += 1
            yield text

    def _size(self, text: str) -> int:
        try:
            return len(text.encode())
        except UnicodeEncodeError as error:
            raise SourceError(f"Document {self.documents} to train on is no valid Unicode: {error}.") from error

    def notes(self) -> list[str]:
        return self._left


def _trained(texts: Iterator[str], vocab_size: int, special_tokens: Sequence[str], min_frequency: int) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer=trainer)
    return tokenizer


def _shortfall(made: int, wanted: int, min_frequency: int) -> list[str]:
    if made == wanted:
        return []
    return [
        f"Only {made:,} of {wanted:,} ids could be made: no further pair of tokens occurs {min_frequency} times; "
        "give more text, or ask for a smaller vocabulary."
    ]
