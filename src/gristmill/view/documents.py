"""Documents page by page, and one by its id."""

from __future__ import annotations

from gristmill.core.errors import ConfigError
from gristmill.figures.dropped import DroppedRow, dropped_documents
from gristmill.figures.funnel import sum_up
from gristmill.report.markup import Html, joined
from gristmill.report.page import paragraph, section, table
from gristmill.store.documents import Record
from gristmill.view.dropped_page import dropped_rows
from gristmill.view.listing import listed
from gristmill.view.parts import Answer, Params, address, choice, form, hidden, link, number, pager, whole
from gristmill.view.subject import Subject

_COUNT = 50
_SHOWN = ("url", "path")


def browse(subject: Subject, params: Params) -> str:
    """So many documents of a store from one on."""
    k, source = number(params, "store", 0), params.get("source", "")
    store = subject.store(k)
    first = number(params, "first", 0, max(len(store) - 1, 0))
    found = listed(store, first, _COUNT, source)
    rows = [_row(k, n, record) for n, record in found.documents.items()]
    last = (len(store) if found.after is None else found.after) - 1
    none = paragraph(f"None of the documents {first:,} to {last:,} is of this source.")
    body = table(["number", "id", "source", "tokens", "where it comes from"], rows) if rows else none
    before = max(first - _COUNT, 0)
    turn = pager(
        link("from the first", "docs", store=k, source=source) if first else None,
        link("back", "docs", first=before, store=k, source=source) if first and not source else None,
        link("go on", "docs", first=found.after, store=k, source=source) if found.after else None,
    )
    title = f"Documents of {subject.names[k]}"
    said = f"{len(store):,} in all{f', those of {source}' if source else ''}."
    return whole(subject, title, joined([_choices(subject, k, source), body, turn]), here="docs", subtitle=said)


def _choices(subject: Subject, k: int, source: str) -> Html:
    """Links to the other stores, and a choice of source."""
    others = [link(name, "docs", store=i) for i, name in enumerate(subject.names) if i != k]
    manifest = subject.manifest(subject.store(k))
    names = [each.name for each in sum_up(manifest.funnel).sources] if manifest else []
    options = [("", "all sources"), *((name, name) for name in names)]
    chosen = (
        form("docs", hidden("store", k), choice("source", "source", options, source), button="Show") if names else ""
    )
    return joined([paragraph("Other stores: ", joined(others, ", ")) if others else "", chosen])


def _row(k: int, n: int, record: Record) -> list[object]:
    where = next((record[name] for name in _SHOWN if record.get(name)), "")
    tokens = record.get("length", "")  # files of others tell it only with their index
    return [n, link(record["id"], "doc", store=k, n=n), record["source"], tokens, _short(where)]


def _short(value: object, most: int = 200) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]} … {len(text) - most:,} characters more"


def document_by_id(subject: Subject, params: Params) -> Answer:
    """Go to the document of an id; show those there are, if several; or why it was dropped."""
    wanted = params.get("id", "")
    if not wanted:
        raise ConfigError("Say which id is looked for.")
    found = [(k, n) for k, store in enumerate(subject.stores.values()) for n in store.locate([wanted])[wanted]]
    if len(found) == 1:
        return Answer(go_to=address("doc", store=found[0][0], n=found[0][1]))
    if found:
        rows = [[subject.names[k], link(f"{n:,}", "doc", store=k, n=n)] for k, n in found]
        return Answer(whole(subject, f"{len(found):,} documents have this id", table(["store", "number"], rows)))
    return _not_there(subject, wanted)


def _not_there(subject: Subject, wanted: str) -> Answer:
    gone = _dropped(subject, wanted)
    if not gone:
        body = paragraph("No document here has the id ", wanted, ", and none that was dropped.")
        return Answer(whole(subject, "Not found", body), status=404)
    return Answer(whole(subject, "This document was dropped", section("Why", dropped_rows(gone))))


def _dropped(subject: Subject, wanted: str) -> list[DroppedRow]:
    roots = {str(root): root for store in subject.stores.values() if (root := subject.root(store))}
    return [row for root in roots.values() for row in dropped_documents(root, wanted)]
