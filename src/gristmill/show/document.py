"""One document: where it lies in a store, or why it is not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill.core.errors import ConfigError
from gristmill.show.terminal import facts, line, print_json
from gristmill.stages.dropped import dropped_documents
from gristmill.store.reader import Store

_SHOWN_TEXT = 1000


def show_document(path: Path, stores: Sequence[Store], doc_id: str, as_json: bool) -> None:
    """Where each document of this id lies and how its text begins, or why it is not there; as JSON a list."""
    found = [(store, i) for store in stores if store.num_shards for i in store.locate([doc_id])[doc_id]]
    dropped = dropped_documents(path, doc_id)
    if dropped and not found:
        _show_dropped(doc_id, dropped, as_json)
        return
    if not found:
        raise ConfigError(f"No document of {' and '.join(store.describe() for store in stores)} has the id {doc_id!r}.")
    rows = [_document_facts(store, i) for store, i in found]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        text = row.pop("text")
        facts(doc_id, {key: str(value) for key, value in row.items()})
        line(text[:_SHOWN_TEXT])
        if len(text) > _SHOWN_TEXT:
            line(f"... the first {_SHOWN_TEXT:,} of {len(text):,} characters; --json gives all")


def _show_dropped(doc_id: str, dropped: list[dict[str, Any]], as_json: bool) -> None:
    """A document that a rule dropped: which one, for which reason, by which figure or match."""
    if as_json:
        print_json(dropped)
        return
    for row in dropped:
        shown = {key: value for key, value in row.items() if value is not None and key != "text"}
        facts(f"{doc_id} was dropped", {key: str(value) for key, value in shown.items()})
        if row.get("text"):
            line(row["text"][:_SHOWN_TEXT])


def _document_facts(store: Store, i: int) -> dict[str, Any]:
    document, (start, end) = store.document(i), store.document_span(i)
    text = document.text if store.facts.tokenizer else ""
    return {"store": store.describe(), "number": i, "start": start, "end": end, **document.record, "text": text}
