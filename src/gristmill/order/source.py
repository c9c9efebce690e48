"""What the order needs to know of a store, and how its figures give the samples of an epoch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gristmill.core.arguments import PathLike, as_mapping, refuse
from gristmill.core.errors import ConfigError
from gristmill.core.hashing import derive_key
from gristmill.order.cut import EpochOrder


class Packing(Protocol):
    """A pack index: which pieces of which documents fill bin b."""

    def bins_in(self, shards: int) -> int: ...
    def fingerprint_of(self, shards: int) -> str: ...
    def pieces(self, bin: int) -> list[tuple[int, int, int]]: ...
    def bins_of(self, document: int) -> list[int]: ...


@runtime_checkable
class Tokens(Protocol):
    """An opened store, as far as the order looks at it: figures and boundaries, never tokens."""

    @property
    def num_shards(self) -> int: ...
    @property
    def eos(self) -> int | None: ...
    def tokens_in(self, shards: int) -> int: ...
    def documents_in(self, shards: int) -> int: ...
    def truncated_tokens(self, seq_len: int, shards: int) -> int: ...
    def fingerprint_of(self, shards: int) -> str: ...
    def pack_index(self, seq_len: int) -> Packing: ...
    def document_id(self, document: int) -> str: ...
    def document_span(self, document: int) -> tuple[int, int]: ...
    def spans(self, start: int, end: int) -> list[tuple[int, int, int]]: ...
    def locate(self, ids: Sequence[str]) -> dict[str, list[int]]: ...
    def describe(self) -> str: ...
    def location(self) -> dict[str, Any]: ...


# Stores, or what `gristmill.open` takes; by name, or one by itself.
Sources = Mapping[str, Tokens | PathLike | Sequence[PathLike]] | Tokens | PathLike | Sequence[PathLike]
# The name of a source that was given without one: it is part of the order, so it cannot be made of a path.
ALONE = "data"


def opened(sources: Any) -> dict[str, Tokens]:
    """The sources by name, those given by their path opened; a store by itself has the name `data`."""
    wanted = "a mapping of names to stores or paths, or one store or path"
    named = as_mapping("sources", sources if isinstance(sources, Mapping) else {ALONE: sources}, wanted)
    if not named or not all(named):
        raise refuse("sources", f"{wanted}; each has a name", sources)
    return {name: _opened(store, wanted) for name, store in named.items()}


def _opened(store: Any, wanted: str) -> Tokens:
    from gristmill.store.opening import open_store

    if isinstance(store, Tokens):
        return store
    if isinstance(store, str | os.PathLike | list | tuple) and store:
        return open_store(store)
    raise refuse("sources", wanted, store)


@dataclass(frozen=True)
class Source:
    """A named store under a plan's cut and seed."""

    name: str
    store: Tokens
    cut: str
    seed: int
    shuffle: bool

    def order(self, shards: int, seq_len: int, unit: int) -> EpochOrder:
        """The epochs' order over the first `shards` shards in sequences of `seq_len`."""
        units, parts = self._units(shards, seq_len, unit)
        if units < 1:
            raise ConfigError(
                f"Source {self.name!r} has {self.store.tokens_in(shards):,} tokens, too few for one sequence of "
                f"{unit:,}: lower seq_len or unit, or add text."
            )
        return EpochOrder(derive_key(self.seed, "order", self.name), units, parts, self.shuffle)

    def _units(self, shards: int, seq_len: int, unit: int) -> tuple[int, int]:
        if self.cut == "chunk":
            return self.store.tokens_in(shards) // unit, unit // seq_len
        if self.cut == "window":
            return self.store.tokens_in(shards) - seq_len + 1, 1
        if self.cut == "pad":
            return self.store.documents_in(shards), 1
        return self.store.pack_index(seq_len).bins_in(shards), 1

    def content(self, shards: int, seq_len: int) -> str:
        """The fingerprint of what an epoch reads: the shards, and for pack the index."""
        content = self.store.fingerprint_of(shards)
        return content + self.store.pack_index(seq_len).fingerprint_of(shards) if self.cut == "pack" else content

    def density(self, order: EpochOrder, shards: int, seq_len: int, unit: str) -> Fraction:
        """Tokens or documents that a sample holds on average, exactly."""
        if unit == "samples":
            return Fraction(1)
        if unit == "tokens":
            return Fraction(self.epoch_tokens(order, shards, seq_len), order.samples)
        documents, tokens = self.store.documents_in(shards), self.store.tokens_in(shards)
        if self.cut in ("chunk", "window"):
            return Fraction(documents * seq_len, tokens)
        return Fraction(documents, order.samples)

    def epoch_tokens(self, order: EpochOrder, shards: int, seq_len: int) -> int:
        """Tokens that one epoch serves, padding not counted."""
        if self.cut == "pack":
            return self.store.tokens_in(shards)
        if self.cut == "pad":
            return self.store.tokens_in(shards) - self.store.truncated_tokens(seq_len, shards)
        return order.samples * seq_len

    def unserved_tokens(self, order: EpochOrder, shards: int, seq_len: int) -> int:
        """Tokens that no epoch serves: the tail that fills no sequence, or what `pad` truncates."""
        if self.cut == "window":
            return 0
        return self.store.tokens_in(shards) - self.epoch_tokens(order, shards, seq_len)

    def pieces(self, sample: int, seq_len: int) -> list[tuple[int, int, int]]:
        """The (document, start, end) that a sample holds, in the row's order, positions inside the document."""
        if self.cut == "pack":
            return self.store.pack_index(seq_len).pieces(sample)
        if self.cut == "pad":
            start, end = self.store.document_span(sample)
            return [(sample, 0, min(end - start, seq_len))]
        first = sample * seq_len if self.cut == "chunk" else sample
        return self.store.spans(first, first + seq_len)

    def samples_of(self, document: int, order: EpochOrder, seq_len: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The samples that hold a token of the document."""
        if self.cut == "pack":
            return np.array(self.store.pack_index(seq_len).bins_of(document), dtype=np.int64)
        if self.cut == "pad":
            return np.array([document], dtype=np.int64)
        start, end = self.store.document_span(document)
        if self.cut == "chunk":
            first, last = start // seq_len, (end - 1) // seq_len
        else:
            first, last = max(start - seq_len + 1, 0), end - 1
        return np.arange(first, min(last + 1, order.samples), dtype=np.int64)
