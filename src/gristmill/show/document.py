"""One document: where it lies in a store, or why it is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gristmill.show.terminal import facts, line

if TYPE_CHECKING:
    from gristmill.figures.document import Record

_SHOWN_TEXT = 1000


def show_documents(doc_id: str, found: Sequence[Record]) -> None:
    """Where each document of this id lies and how its text begins."""
    for row in found:
        text = str(row["text"])
        facts(doc_id, {key: str(value) for key, value in row.items() if key != "text"})
        line(text[:_SHOWN_TEXT])
        if len(text) > _SHOWN_TEXT:
            line(f"... the first {_SHOWN_TEXT:,} of {len(text):,} characters; --json gives all")


def show_why_dropped(doc_id: str, dropped: Sequence[Record]) -> None:
    """A document that a rule dropped: which one, for which reason, by which figure or match."""
    for row in dropped:
        known = {key: str(value) for key, value in row.items() if value is not None and key != "text"}
        facts(f"{doc_id} was dropped", known)
        if row.get("text"):
            line(str(row["text"])[:_SHOWN_TEXT])
