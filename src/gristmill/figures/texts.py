"""Texts of documents in stores that can decode them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import GristmillError
from gristmill.store.documents import Record
from gristmill.store.reader import Store

# Tokens between two documents that are read with them, and tokens that are read at once, about.
_NEAR, _MOST_READ = 1 << 14, 1 << 20


def can_decode(store: Store) -> bool:
    """Whether the store's tokenizer is there and can be loaded here."""
    try:
        store.decode([])
    except GristmillError:
        return False
    return True


def records_of(store: Store, documents: Ints) -> list[Record]:
    """What the making of these documents noted of each: id, source, and more."""
    counts = store.shard_documents()
    ends = np.cumsum(counts)
    shards = np.searchsorted(ends, documents, side="right")
    rows = documents - (ends - counts)[shards]
    return [store.names.record(shard, row) for shard, row in zip(shards.tolist(), rows.tolist(), strict=True)]


def decoded(store: Store, begins: Ints, ends: Ints) -> list[str]:
    """The texts of documents that lie at these tokens, in their order; neighbours are read together."""
    ids: list[list[int]] = []
    far = np.flatnonzero((begins[1:] - ends[:-1] > _NEAR) | (np.diff(begins // _MOST_READ) > 0)) + 1
    for first, last in pairwise([0, *far.tolist(), len(begins)] if len(begins) else []):
        start = int(begins[first])
        tokens = store.tokens(start, int(ends[last - 1]))
        for begin, end in zip(begins[first:last] - start, ends[first:last] - start, strict=True):
            own = tokens[begin:end]
            ids.append(own[own != store.eos].tolist())
    texts: list[str] = store.tokenizer.decode_batch(ids, skip_special_tokens=False)
    return texts


def text_of(stores: Sequence[Store], doc_id: str, most_tokens: int) -> str | None:
    """How the first document of this id begins, if these stores hold it and can decode it."""
    for store in stores:
        for number in store.locate([doc_id])[doc_id] if can_decode(store) else ():
            begin, end = store.document_span(number)
            return store.decode(store.tokens(begin, min(end - 1, begin + most_tokens)))
    return None
