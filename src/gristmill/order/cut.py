"""How a source's tokens become numbered samples: a class for each way.

    chunk    sample i is tokens [i*T, (i+1)*T) of the concatenated stream
    window   sample i is tokens [i, i+T): every start offset once an epoch
    pad      sample i is document i, truncated to T or padded with EOS
    pack     sample i is bin i of the pack index: whole documents, best-fit

All of it is arithmetic on the figures of a store: no token is looked at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.order.tokens import Tokens

Spans = list[tuple[int, int, int]]


@dataclass(frozen=True)
class Cut(ABC):
    """A store cut in one way; an argument `samples` is how many an epoch has.

    divides: sequences may change their length within an epoch. lone: a row is one document, cut off or padded.
    """

    name: ClassVar[str]
    divides: ClassVar[bool] = False
    lone: ClassVar[bool] = False

    store: Tokens

    @abstractmethod
    def units(self, shards: int, seq_len: int, unit: int) -> tuple[int, int]:
        """Units of an epoch over the first `shards` shards, and the sequences of each."""

    def content(self, shards: int, seq_len: int) -> str:
        """The fingerprint of what an epoch reads."""
        return self.store.fingerprint_of(shards)

    @abstractmethod
    def documents(self, samples: int, shards: int, seq_len: int) -> Fraction:
        """Documents that a sample holds on average, exactly."""

    def tokens(self, samples: int, shards: int, seq_len: int) -> int:
        """Tokens that one epoch serves, padding not counted."""
        return samples * seq_len

    def unserved_tokens(self, samples: int, shards: int, seq_len: int) -> int:
        """Tokens that no epoch serves: the tail that fills no sequence, or what is truncated."""
        return self.store.tokens_in(shards) - self.tokens(samples, shards, seq_len)

    @abstractmethod
    def spans(self, sample: int, seq_len: int) -> Spans:
        """The (document, start, end) that a sample holds, in the row's order, positions inside the document."""

    @abstractmethod
    def samples_of(self, documents: Ints, samples: int, seq_len: int) -> tuple[Ints, Ints]:
        """The samples that hold a token of one of the documents: which of `documents`, and the sample."""

    @abstractmethod
    def held(self, documents: Ints, samples: int, seq_len: int) -> tuple[Ints, Ints, Ints]:
        """The same, and how many of the document's tokens the sample holds."""


def ranges(first: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The numbers of many ranges [first, end), one after the other: of which range, and the number."""
    counts = np.maximum(end - first, 0)
    which = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return which, np.arange(len(which)) - before[which] + first[which]


class StreamCut(Cut):
    """A sample is T tokens of the documents' concatenation."""

    @abstractmethod
    def starts(self, samples: Ints, seq_len: int) -> Ints:
        """The first token of each sample."""

    @abstractmethod
    def _holding(self, start: Ints, end: Ints, seq_len: int) -> tuple[Ints, Ints]:
        """The first and the last sample that hold one of the tokens [start, end)."""

    def documents(self, samples: int, shards: int, seq_len: int) -> Fraction:
        return Fraction(self.store.documents_in(shards) * seq_len, self.store.tokens_in(shards))

    def spans(self, sample: int, seq_len: int) -> Spans:
        first = int(self.starts(np.array(sample), seq_len))
        return self.store.spans(first, first + seq_len)

    def samples_of(self, documents: Ints, samples: int, seq_len: int) -> tuple[Ints, Ints]:
        start, end = self.store.document_spans(documents)
        first, last = self._holding(start, end, seq_len)
        return ranges(first, np.where(end > start, np.minimum(last + 1, samples), first))

    def held(self, documents: Ints, samples: int, seq_len: int) -> tuple[Ints, Ints, Ints]:
        which, found = self.samples_of(documents, samples, seq_len)
        (start, end), first = self.store.document_spans(documents), self.starts(found, seq_len)
        return which, found, np.minimum(first + seq_len, end[which]) - np.maximum(first, start[which])


class Chunk(StreamCut):
    """One sequence after the other; where it is shorter than the plan's unit, several are one unit."""

    name, divides = "chunk", True

    def units(self, shards: int, seq_len: int, unit: int) -> tuple[int, int]:
        return self.store.tokens_in(shards) // unit, unit // seq_len

    def starts(self, samples: Ints, seq_len: int) -> Ints:
        return samples * seq_len

    def _holding(self, start: Ints, end: Ints, seq_len: int) -> tuple[Ints, Ints]:
        return start // seq_len, (end - 1) // seq_len


class Window(StreamCut):
    """A sequence from every token on."""

    name = "window"

    def units(self, shards: int, seq_len: int, unit: int) -> tuple[int, int]:
        return self.store.tokens_in(shards) - seq_len + 1, 1

    def unserved_tokens(self, samples: int, shards: int, seq_len: int) -> int:
        return 0

    def starts(self, samples: Ints, seq_len: int) -> Ints:
        return samples

    def _holding(self, start: Ints, end: Ints, seq_len: int) -> tuple[Ints, Ints]:
        return np.maximum(start - seq_len + 1, 0), end - 1


class DocumentCut(Cut):
    """A sample is documents, or windows of T tokens of them."""

    @abstractmethod
    def windows(self, samples: Ints, seq_len: int) -> tuple[Ints, Ints, Ints]:
        """For each piece: which of `samples` it is in, its document, and its window there (-1: the last, short one)."""

    def documents(self, samples: int, shards: int, seq_len: int) -> Fraction:
        return Fraction(self.store.documents_in(shards), samples)

    def spans(self, sample: int, seq_len: int) -> Spans:
        _, documents, windows = self.windows(np.array([sample]), seq_len)
        first, last = self.store.document_spans(documents)
        start, length = window_spans(last - first, windows, seq_len)
        return list(zip(documents.tolist(), start.tolist(), (start + length).tolist(), strict=True))


def window_spans(whole: Ints, windows: Ints, seq_len: int) -> tuple[Ints, Ints]:
    """First token and length of windows (-1: the last, short one) of documents of `whole` tokens."""
    start = np.where(windows < 0, whole // seq_len, windows) * seq_len
    return start, np.minimum(whole - start, seq_len)


class Pad(DocumentCut):
    """A document a sample, cut off at T."""

    name, lone = "pad", True

    def units(self, shards: int, seq_len: int, unit: int) -> tuple[int, int]:
        return self.store.documents_in(shards), 1

    def tokens(self, samples: int, shards: int, seq_len: int) -> int:
        return self.store.tokens_in(shards) - self.store.truncated_tokens(seq_len, shards)

    def windows(self, samples: Ints, seq_len: int) -> tuple[Ints, Ints, Ints]:
        return np.arange(len(samples)), samples, np.zeros_like(samples)

    def samples_of(self, documents: Ints, samples: int, seq_len: int) -> tuple[Ints, Ints]:
        return np.arange(len(documents)), documents

    def held(self, documents: Ints, samples: int, seq_len: int) -> tuple[Ints, Ints, Ints]:
        start, end = self.store.document_spans(documents)
        return np.arange(len(documents)), documents, np.minimum(end - start, seq_len)


class Pack(DocumentCut):
    """Bins of the store's pack index."""

    name = "pack"

    def units(self, shards: int, seq_len: int, unit: int) -> tuple[int, int]:
        return self.store.pack_index(seq_len).bins_in(shards), 1

    def content(self, shards: int, seq_len: int) -> str:
        return self.store.fingerprint_of(shards) + self.store.pack_index(seq_len).fingerprint_of(shards)

    def tokens(self, samples: int, shards: int, seq_len: int) -> int:
        return self.store.tokens_in(shards)

    def windows(self, samples: Ints, seq_len: int) -> tuple[Ints, Ints, Ints]:
        return self.store.pack_index(seq_len).pieces_of(samples)

    def samples_of(self, documents: Ints, samples: int, seq_len: int) -> tuple[Ints, Ints]:
        return self.store.pack_index(seq_len).bins_of(documents)

    def held(self, documents: Ints, samples: int, seq_len: int) -> tuple[Ints, Ints, Ints]:
        which, bins = self.samples_of(documents, samples, seq_len)
        start, end = self.store.document_spans(documents)
        whole = int(((end - start) // seq_len).sum())  # full windows come first, then remainders
        rest = ((end - start) % seq_len)[which[whole:]]
        return which, bins, np.concatenate([np.full(whole, seq_len, np.int64), rest])


_ALL: tuple[type[Cut], ...] = (Chunk, Pack, Pad, Window)
CUTS = {cut.name: cut for cut in _ALL}
