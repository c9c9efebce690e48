"""Texts of documents in stores that can decode them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gristmill.core.errors import GristmillError
from gristmill.store.reader import Store


def can_decode(store: Store) -> bool:
    """Whether the store's tokenizer is there and can be loaded here."""
    try:
        store.decode([])
    except GristmillError:
        return False
    return True


def decoded(store: Store, documents: Sequence[npt.NDArray[np.generic]]) -> list[str]:
    """The texts of many documents by their tokens, on all cores."""
    ids = [tokens[tokens != store.eos].tolist() for tokens in documents]
    texts: list[str] = store.tokenizer.decode_batch(ids, skip_special_tokens=False)
    return texts


def text_of(stores: Sequence[Store], doc_id: str, most_tokens: int) -> str | None:
    """How the first document of this id begins, if these stores hold it and can decode it."""
    for store in stores:
        for number in store.locate([doc_id])[doc_id] if can_decode(store) else ():
            begin, end = store.document_span(number)
            return store.decode(store.tokens(begin, min(end - 1, begin + most_tokens)))
    return None
