"""The words of each document, split once and read by every rule that counts words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.extras import require
from gristmill.core.options import check_fields
from gristmill.core.version import version_of
from gristmill.curate.characters import characters
from gristmill.curate.documents import Documents

# Flags of a word: it has an alphabetic character; it has a character outside of datatrove's PUNCTUATION_SET; it may
# end a sentence; it is punctuation throughout (spaCy's is_punct).
ALPHA, WORD, SENTENCE_END, PUNCT = 1, 2, 4, 8

Columns = tuple[npt.NDArray[Any], ...]

SPLITTERS = ("gristmill", "spacy")


@dataclass(frozen=True)
class Words:
    """The words of all documents in a row, as columns; 21 bytes a word."""

    # int64, n + 1: the words of document i are offsets[i]:offsets[i + 1].
    offsets: Ints
    # The first byte of a word and the one after its last, counted from the start of its document.
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    # Of the word's bytes, by `hash_bytes`: equal words, equal hashes, in every run.
    hashes: npt.NDArray[np.uint64]
    # Its length in characters.
    chars: npt.NDArray[np.int32]
    flags: npt.NDArray[np.uint8]

    @property
    def counts(self) -> Ints:
        return np.diff(self.offsets)

    @property
    def columns(self) -> Columns:
        """All but `offsets`."""
        return self.starts, self.ends, self.hashes, self.chars, self.flags

    def take(self, rows: Ints) -> Words:
        """The words of these documents only, in this order."""
        # Neighbours are copied together: where a rule drops little, that is a handful of long copies.
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        first, last = rows[np.r_[0, breaks][: len(rows)]], rows[np.r_[breaks, len(rows)][: len(rows)] - 1]
        spans = list(zip(self.offsets[first].tolist(), self.offsets[last + 1].tolist(), strict=True))
        taken = (np.concatenate([column[begin:end] for begin, end in [(0, 0), *spans]]) for column in self.columns)
        return Words(np.concatenate(([0], np.cumsum(self.counts[rows]))), *taken)


@dataclass(frozen=True)
class WordRule:
    """A rule that reads words. `variant` says whose words and decisions: `datatrove` splits as it does, by spaCy."""

    name: ClassVar[str]
    splitters: ClassVar[Mapping[str, str]] = {"gristmill": "gristmill", "datatrove": "spacy"}

    variant: str = "gristmill"

    def __post_init__(self) -> None:
        if self.variant not in self.splitters:
            raise ConfigError(
                f"{self.name} has no variant {self.variant!r}{did_you_mean(self.variant, self.splitters)}."
            )
        check_fields(self, self.name)
        if self.splitter == "spacy":
            require("spacy", f"{self.name}: {{variant: {self.variant}}}")

    @property
    def splitter(self) -> str:
        return self.splitters[self.variant]

    def versions(self) -> dict[str, str]:
        """What decides what a word is, beside Unicode's tables; our own splitter needs no library."""
        return {"spacy": version_of("spacy")} if self.splitter == "spacy" else {}


def kept_rules_name() -> str:
    """The name under which the rules of the installed spaCy are kept."""
    return f"spacy-{version_of('spacy')}"


def words(documents: Documents, splitter: str) -> Words:
    """The words of these documents by one of SPLITTERS, made once and shared.

    `gristmill` needs no library and knows no language. White space separates. A word is a run of letters and digits
    with their marks; a single apostrophe or low line stays inside it between two of them (don't, snake_case), a point
    or comma between two digits (3.14). In scripts without spaces (Han, kana, Thai, Khmer, ...) each letter is a word.
    Any other character is a token of its own, together with its repetitions (---, ...).

    `spacy` gives the tokens of spaCy's `blank('en')` without those of white space, which is what datatrove calls
    words. Between two of its words of a document spaCy has a token of white space where the bytes between them are
    neither none nor a single blank.
    """
    if splitter not in SPLITTERS:
        raise ConfigError(f"No word splitter {splitter!r}{did_you_mean(splitter, SPLITTERS)}.")
    return documents.shared(f"words:{splitter}", _split_by_spacy if splitter == "spacy" else _split)


def _split(documents: Documents) -> Words:
    from gristmill.curate.word_kernels import split_documents

    output, done = WordColumns(documents), 0
    text = (documents.data, documents.offsets, characters())
    while (done := split_documents(*text, done, output.bounds, output.columns)) < len(documents):
        output.grow()
    return output.words()


def _split_by_spacy(documents: Documents) -> Words:
    from gristmill.curate.spacy_words import spacy_words

    return spacy_words(documents)


class WordColumns:
    """Columns being filled: room for a word in three bytes of text, doubled where a text has more."""

    def __init__(self, documents: Documents) -> None:
        self.bounds = np.zeros(len(documents) + 1, np.int64)
        room = int(documents.offsets[-1] - documents.offsets[0]) // 3 + 64
        kinds = (np.int32, np.int32, np.uint64, np.int32, np.uint8)
        self.columns: Columns = tuple(np.empty(room, kind) for kind in kinds)

    def grow(self) -> None:
        self.columns = tuple(np.concatenate((column, np.empty_like(column))) for column in self.columns)

    def words(self) -> Words:
        return Words(self.bounds, *(column[: self.bounds[-1]] for column in self.columns))
