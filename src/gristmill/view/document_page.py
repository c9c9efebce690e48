"""One document: its text with its tokens coloured, its way through the rules, its fields, and the steps that see it."""

from __future__ import annotations

from gristmill.core.errors import ConfigError
from gristmill.order.plan import Plan
from gristmill.order.trace import Seen
from gristmill.report.markup import Html, joined, tag
from gristmill.report.page import facts, paragraph, section, table
from gristmill.store.documents import Record
from gristmill.store.manifest import SPLITS
from gristmill.store.reader import Store
from gristmill.view.parts import Params, link, number, pager, whole
from gristmill.view.subject import Subject
from gristmill.view.tokens import PART, coloured, pieces

ENDLESS_STEPS = 1000
_STEPS = 100
_LONGEST_FIELD = 2000


def document_page(subject: Subject, params: Params) -> str:
    """A document by its number, `at` a token if one is asked for."""
    k, n = number(params, "store", 0), number(params, "n", 0)
    store = subject.store(k)
    start, end = store.document_span(n)
    record = store.document(n).record if end - start <= PART else _record(store, n)
    at = number(params, "at", -1) if "at" in params else None
    part = min(at if at is not None else number(params, "part", 0) * PART, end - start - 1) // PART
    parts = [
        _around(k, n, len(store)),
        section("Text", _text(store, k, n, part, at)),
        section("Seen in these steps", _seen(subject, subject.plan, record)) if subject.plan else "",
        section("Its way through the rules", _way(subject, store, record)),
        section("Fields", _fields(subject, store, record, n, (start, end))),
    ]
    about = f"Document {n:,} of {subject.names[k]}, {end - start:,} tokens, of the source "
    return whole(subject, str(record["id"]), joined(parts), subtitle=joined([about, str(record["source"]), "."]))


def _record(store: Store, n: int) -> Record:
    """What is noted of a document, without its tokens."""
    from gristmill.view.listing import listed

    return listed(store, n, 1).documents[n]


def _around(k: int, n: int, count: int) -> Html:
    return pager(
        link("previous document", "doc", store=k, n=n - 1) if n else None,
        link("next document", "doc", store=k, n=n + 1) if n + 1 < count else None,
        link("those around it", "docs", store=k, first=max(n - 10, 0)),
    )


def _text(store: Store, k: int, n: int, part: int, at: int | None) -> Html:
    """One part of the text: long documents are shown in parts of 2,048 tokens."""
    start, end = store.document_span(n)
    first, last = part * PART, min((part + 1) * PART, end - start)
    ids = store.tokens(start + first, start + last)
    shown = coloured(pieces(store, ids), ids.tolist(), [], first, at)
    if end - start <= PART:
        return shown
    count = -(-(end - start) // PART)
    turn = pager(
        link("first part", "doc", store=k, n=n) if part else None,
        link("previous part", "doc", store=k, n=n, part=part - 1) if part else None,
        link("next part", "doc", store=k, n=n, part=part + 1) if part + 1 < count else None,
        link("last part", "doc", store=k, n=n, part=count - 1) if part + 1 < count else None,
    )
    said = paragraph(f"Part {part + 1:,} of {count:,}: tokens {first:,} to {last - 1:,} of {end - start:,}.")
    return joined([said, turn, shown, turn])


def _seen(subject: Subject, plan: Plan, record: Record) -> Html:
    """The steps in which a plan serves it, each a link to the row."""
    until = plan.total_steps or ENDLESS_STEPS
    try:
        seen = plan.find(str(record["id"]), until)
    except ConfigError as error:
        return paragraph(str(error))
    if not seen:
        return paragraph(f"No step before {until:,} serves it.")
    shown = table(["step", "row", "source", "epoch"], [_place(each) for each in seen[:_STEPS]])
    more = f"{len(seen) - _STEPS:,} more places are not shown." if len(seen) > _STEPS else ""
    endless = f"The plan is endless: its first {until:,} steps were asked." if plan.total_steps is None else ""
    return joined([shown, *(paragraph(said, class_="faint") for said in (more, endless) if said)])


def _place(seen: Seen) -> list[object]:
    shown = link(f"{seen.step:,}", "step", f"row-{seen.row}", n=seen.step, row=seen.row)
    return [shown, seen.row, seen.source, seen.epoch]


def _way(subject: Subject, store: Store, record: Record) -> Html:
    """What each step left of its source: this document is among those that every one kept."""
    manifest = subject.manifest(store)
    rows = [row for row in manifest.funnel if row["source"] == record["source"]] if manifest else []
    if not rows:
        return paragraph("Nothing is known of how it came here: its store has no funnel for its source.")
    passed = [row for row in rows if row["stage"] not in SPLITS]
    kept = [["✓ " + row["stage"], row["documents"], sum(row.get("reasons", {}).values())] for row in passed]
    said = paragraph("Every step kept it. Of its source they left:")
    return joined([said, table(["step", "documents left", "dropped by it"], kept)])


def _fields(subject: Subject, store: Store, record: Record, n: int, span: tuple[int, int]) -> Html:
    own = {"number": n, "tokens of its store": f"{span[0]:,} to {span[1] - 1:,}"}
    noted = {name: _value(value) for name, value in record.items() if value is not None}
    found = facts({**own, **noted})
    return joined([found, tag("p", f"Kept in {store.facts.path}.", class_="faint")])


def _value(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST_FIELD else f"{text[:_LONGEST_FIELD]} … {len(text) - _LONGEST_FIELD:,} more"
