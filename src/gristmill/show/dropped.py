"""What is not in a store, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gristmill.show.terminal import Row, line, paragraph, percent, table

if TYPE_CHECKING:
    from gristmill.figures.dropped import Dropped, DroppedRow

_SHOWN_TEXT = 150
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
    for group in found.groups:
        if group.examples:
            line(f"\n{group.rule}, {group.reason}: {len(group.examples):,} of {group.documents:,}")
            table("", ("id", "source", "value", "detail"), [_example(row) for row in group.examples])
    if not found.has_texts:
        line("")
        paragraph("The texts were not kept: prepare with --keep-dropped to read them here.")


def _example(row: DroppedRow) -> Row:
    """An example with the beginning of its text; one that never got an id is known by its file and place."""
    name = row["id"] if row["id"] is not None else f"{row['path']} ({row['row']})"
    value = "" if row["value"] is None else f"{row['value']:.4g}"
    detail, text = row["detail"] or "", " ".join((row.get("text") or "").split())
    begin = text[:_SHOWN_TEXT] + "…" * (len(text) > _SHOWN_TEXT)
    if len(detail) > _SHOWN_DETAIL:  # a matched span or a sentence stands on its own
        return Row((name, row["source"], value, ""), f"{detail} {begin}".strip())
    return Row((name, row["source"], value, detail), begin)
