"""One export, as the formats see it: what is written, where to, and what each format has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from gristmill.core.progress import Progress
from gristmill.store.manifest import Manifest
from gristmill.store.outbox import Outbox
from gristmill.store.reader import Store

COPY_TOKENS = 1 << 24


@dataclass(frozen=True)
class ExportJob:
    """The splits that have shards, where they go, and the tokens a sample if these are to be of one length."""

    name: str
    manifest: Manifest
    splits: dict[str, Store]
    out: Outbox
    progress: Progress
    seq_len: int | None = None

    def shards(self) -> Iterator[tuple[str, Store, int]]:
        """Every (split, store, shard); whoever asks for the next has done with the last."""
        return ((split, store, shard) for split, store in self.splits.items() for shard in self.shards_of(store))

    def shards_of(self, store: Store) -> Iterator[int]:
        """The shards of one split."""
        for shard in range(store.num_shards):
            yield shard
            self.progress.advance(int(store.files.tokens[shard]) * store.dtype.itemsize)


@dataclass(frozen=True)
class ExportFormat:
    """How one system is served: the files, what to tell, and a check before anything is written."""

    write: Callable[[ExportJob], None]
    notes: Callable[[ExportJob], list[str]]
    check: Callable[[ExportJob], None] = lambda job: None
    has_samples: bool = False


def copy_tokens(
    store: Store, first: int, stop: int, file: IO[bytes], dtype: np.dtype[np.generic] | None = None
) -> None:
    """Write tokens [first, stop) of a split in pieces that may be held in memory."""
    for at in range(first, stop, COPY_TOKENS):
        tokens = store.tokens(at, min(at + COPY_TOKENS, stop))
        file.write(np.ascontiguousarray(tokens, dtype=dtype or store.dtype).data)
