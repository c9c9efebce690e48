"""What the order needs to know of a store: figures and boundaries, never tokens."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gristmill.core.arguments import PathLike, as_mapping, refuse
from gristmill.core.arrays import Ints

if TYPE_CHECKING:
    from gristmill.store.files import Location


class Packing(Protocol):
    """A pack index: which windows of which documents fill a bin."""

    def bins_in(self, shards: int) -> int: ...
    def fingerprint_of(self, shards: int) -> str: ...
    def pieces_of(self, bins: Ints) -> tuple[Ints, Ints, Ints]: ...
    def bins_of(self, documents: Ints) -> tuple[Ints, Ints]: ...


@runtime_checkable
class Tokens(Protocol):
    """An opened store, as far as the order looks at it."""

    @property
    def num_shards(self) -> int: ...
    @property
    def eos(self) -> int | None: ...
    @property
    def vocab_size(self) -> int | None: ...
    def token_id(self, token: str) -> int | None: ...
    def tokens_in(self, shards: int) -> int: ...
    def documents_in(self, shards: int) -> int: ...
    def truncated_tokens(self, seq_len: int, shards: int) -> int: ...
    def fingerprint_of(self, shards: int) -> str: ...
    def pack_index(self, seq_len: int) -> Packing: ...
    def document_id(self, document: int) -> str: ...
    def document_span(self, document: int) -> tuple[int, int]: ...
    def document_spans(self, documents: Ints) -> tuple[Ints, Ints]: ...
    def spans(self, start: int, end: int) -> list[tuple[int, int, int]]: ...
    def locate(self, ids: Sequence[str]) -> dict[str, list[int]]: ...
    def describe(self) -> str: ...
    def location(self) -> Location: ...


# Stores, or what `gristmill.open` takes; by name, or one by itself.
Sources = Mapping[str, Tokens | PathLike | Sequence[PathLike]] | Tokens | PathLike | Sequence[PathLike]
# The name of a source that was given without one: it is part of the order, so it cannot be made of a path.
ALONE = "data"


def opened(sources: object) -> dict[str, Tokens]:
    """The sources by name, those given by their path opened; a store by itself has the name `data`."""
    wanted = "a mapping of names to stores or paths, or one store or path"
    named = as_mapping("sources", sources if isinstance(sources, Mapping) else {ALONE: sources}, wanted)
    if not named or not all(named):
        raise refuse("sources", f"{wanted}; each has a name", sources)
    return {name: _opened(store, wanted) for name, store in named.items()}


def _opened(store: object, wanted: str) -> Tokens:
    from gristmill.store.opening import open_store

    if isinstance(store, Tokens):
        return store
    if isinstance(store, str | os.PathLike | list | tuple) and store:
        return open_store(store)
    raise refuse("sources", wanted, store)
