"""One document: where it lies in a store, or why it is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gristmill.core.errors import ConfigError
from gristmill.figures.dropped import dropped_documents
from gristmill.places.address import Address
from gristmill.store.reader import Store

# A document, or the row of one that was dropped, with the fields that its source carries.
Record = Mapping[str, object]


def find_document(path: Address, stores: Sequence[Store], doc_id: str) -> tuple[Sequence[Record], Sequence[Record]]:
    """Each document of this id with its place and text; if the stores have none, the rows by which it was dropped."""
    found = [_record(store, i) for store in stores if store.num_shards for i in store.locate([doc_id])[doc_id]]
    dropped: Sequence[Record] = () if found else dropped_documents(path, doc_id)
    if not found and not dropped:
        raise ConfigError(f"No document of {' and '.join(store.describe() for store in stores)} has the id {doc_id!r}.")
    return found, dropped


def _record(store: Store, i: int) -> Record:
    document, (start, end) = store.document(i), store.document_span(i)
    text = document.text if store.facts.tokenizer else ""
    return {"store": store.describe(), "number": i, "start": start, "end": end, **document.record, "text": text}
