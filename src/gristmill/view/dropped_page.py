"""What is not in a store, by rule and reason: counted by the funnel, shown a page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from gristmill.figures.dropped import KEYS, DroppedRow, dropped_page
from gristmill.figures.funnel import sum_up
from gristmill.places.address import Address
from gristmill.report.markup import Html, joined, tag
from gristmill.report.page import details, facts, paragraph, section, snippet, table
from gristmill.store.manifest import Manifest
from gristmill.view.parts import Params, link, number, pager, whole
from gristmill.view.subject import Subject

_COUNT = 20
_WHY = ("value", "detail")
_SAID = ("id", "text", "rule", "reason", *_WHY)
_NO_TEXT = tag("p", "Its text was not kept: `gristmill prepare --keep-dropped` does.", class_="faint")


def dropped_documents_page(subject: Subject, params: Params) -> str:
    """The reasons with their counts; under one of them the documents that went by it."""
    asked = {key: params.get(key) or None for key in KEYS}
    roots = dict(subject.manifests)
    counts = [_counts(manifest) for manifest in roots.values()]
    parts: list[Html] = []
    if any(asked.values()):
        parts += [_shown(root, asked, number(params, "first", 0)) for root in _folders(subject)]
    parts += [section("By rule and reason", each) for each in counts]
    if not roots:
        parts.append(paragraph("Nothing is known of what was dropped: files of others have no account of it."))
    return whole(subject, "Dropped documents", joined(parts), here="dropped")


def _folders(subject: Subject) -> Iterable[Address]:
    return {str(root): root for store in subject.stores.values() if (root := subject.root(store))}.values()


def _counts(manifest: Manifest) -> Html:
    """Every reason of every step, with links."""
    steps = sum_up(manifest.funnel).steps
    rows = [[step.name, link(reason, "dropped", rule=step.name, reason=reason), count]
            for step in steps for reason, count in step.reasons.items()]  # fmt: skip
    return table(["rule", "reason", "documents"], rows) if rows else paragraph("No document was dropped.")


def _shown(root: Address, asked: Mapping[str, str | None], first: int) -> Html:
    rows, after = dropped_page(root, asked, first, _COUNT)
    named = ", ".join(f"{key} {value}" for key, value in asked.items() if value)
    turn = pager(
        link("from the first", "dropped", **asked) if first else None,
        link("go on", "dropped", first=after, **asked) if after is not None else None,
    )
    body = dropped_rows(rows) if rows else paragraph("None here." if after is None else "None so far: go on.")
    return section(f"Dropped: {named}", body, turn)


def dropped_rows(rows: Sequence[DroppedRow]) -> Html:
    """Rows of `dropped.parquet`: what decided, where the document came from, and its text where it was kept."""
    return joined(_one(row) for row in rows)


def _one(row: DroppedRow) -> Html:
    known = {key: value for key, value in cast("Mapping[str, object]", row).items() if value not in (None, "")}
    why = [f"{known.get('rule', '')}: {known.get('reason', '')}", *(str(known[key]) for key in _WHY if key in known)]
    kept = snippet(row["text"] or "") if known.get("text") else _NO_TEXT
    others = facts({key: str(value) for key, value in known.items() if key not in _SAID})
    name = known.get("id") or f"{known.get('path', '')}:{known.get('row', '')}"
    heading = tag("h3", str(name))
    return tag("div", heading, paragraph(", ".join(why)), kept, details("Where it came from", others), class_="row")
