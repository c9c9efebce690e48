"""What is not in a store, and why; and one document: where it lies, or why it is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gristmill.show.terminal import Row, facts, line, paragraph, percent, table

if TYPE_CHECKING:
    from gristmill.figures.dropped import Dropped, DroppedGroup, DroppedRow, Record

_EXAMPLE_TEXT = 150
_SHOWN_TEXT = 1000
_SHOWN_DETAIL = 30


def show_dropped(path: str, found: Dropped) -> None:
    """Documents by rule and reason, then examples of each."""
    line(f"{path}: {found.documents:,} documents were dropped.")
    if not found.groups:
        return
    line("")
    rows = [(group.rule, group.reason, group.documents, percent(group.documents, found.documents))
            for group in found.groups]  # fmt: skip
    table("", ("rule", "reason", "documents", "share"), rows)
    show_examples(found.groups)
    if not found.has_texts:
        line("")
        paragraph("The texts were not kept: prepare with --keep-dropped to read them here.")


def show_examples(groups: Sequence[DroppedGroup]) -> None:
    """Some documents of each group that has any."""
    for group in groups:
        if group.examples:
            line(f"\n{group.rule}, {group.reason}: {len(group.examples):,} of {group.documents:,}")
            table("", ("id", "source", "value", "detail"), [_example(row) for row in group.examples])


def _example(row: DroppedRow) -> Row:
    """An example with the beginning of its text; one that never got an id is known by its file and place."""
    name = row["id"] if row["id"] is not None else f"{row['path']} ({row['row']})"
    value = "" if row["value"] is None else f"{row['value']:.4g}"
    detail, text = row["detail"] or "", " ".join((row.get("text") or "").split())
    begin = text[:_EXAMPLE_TEXT] + "…" * (len(text) > _EXAMPLE_TEXT)
    if len(detail) > _SHOWN_DETAIL:  # a matched span or a sentence stands on its own
        return Row((name, row["source"], value, ""), f"{detail} {begin}".strip())
    return Row((name, row["source"], value, detail), begin)


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
