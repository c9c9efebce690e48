"""Phrases and fields: begun when they are asked for, shown as far as they are, and asked again until they are done."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import cast

from gristmill.core.html import counted
from gristmill.core.sizes import speed
from gristmill.report.markup import Html, joined, tag
from gristmill.report.page import bar, notes, paragraph, table
from gristmill.store.field_search import FieldSearch
from gristmill.store.reader import Store
from gristmill.store.search import Hit, Search
from gristmill.view.jobs import Job, Jobs
from gristmill.view.overview import ask, ask_phrase
from gristmill.view.parts import Answer, Params, address, link, number, whole
from gristmill.view.subject import Subject

_SHOWN = 50
# So long a page waits for a search, and after so long the browser asks again.
_PATIENCE, _AGAIN = 0.4, 1
_TELLING = 1 << 26


def search_page(jobs: Jobs, subject: Subject, params: Params) -> Answer:
    """Documents that hold a phrase; without one, the forms."""
    phrase, k = params.get("q", ""), number(params, "store", 0)
    if not phrase:
        return Answer(whole(subject, "Search", ask(subject), here="search"))
    store = subject.store(k)
    job = _job(jobs, params, ("q", k, phrase), lambda: Search(store, phrase, _SHOWN))
    search = cast(Search, job.work)
    said = f"{counted(search.hits, 'place')} in {counted(search.documents, 'document')}; {search.tokens:,} of "
    said += f"{search.total:,} tokens read{_pace(search.tokens * store.dtype.itemsize, job.seconds)}."
    parts = [
        ask_phrase(subject, phrase, k),
        _progress(job, search.tokens, search.total, said, address("search", q=phrase, store=k)),
        "" if search.by_tokens else _decoding(),
        joined(_hit(subject, store, k, phrase, hit) for hit in list(search.first)),
        _more(search.hits),
    ]
    return _answer(subject, job, f"“{phrase}”" if len(phrase) < 60 else "Search", joined(parts))


def field_page(jobs: Jobs, subject: Subject, params: Params) -> Answer:
    """Documents of which a field has a value."""
    field, value, k = params.get("field", ""), params.get("value", ""), number(params, "store", 0)
    store = subject.store(k)
    job = _job(jobs, params, ("field", k, field, value), lambda: FieldSearch(store, field, value, _SHOWN))
    search = cast(FieldSearch, job.work)
    said = f"{counted(search.hits, 'document')}; {search.read:,} of {search.total:,} looked at."
    rows = [[n, link(store.document_id(n), "doc", store=k, n=n)] for n in list(search.first)]
    where = address("field", field=field, value=value, store=k)
    parts = [ask(subject), _progress(job, search.read, search.total, said, where),
             table(["number", "id"], rows) if rows else "", _more(search.hits)]  # fmt: skip
    return _answer(subject, job, f"{field} is {value}" if len(value) < 60 else field, joined(parts))


def _job(jobs: Jobs, params: Params, key: Hashable, make: Callable[[], Iterable[object]]) -> Job[Iterable[object]]:
    if params.get("stop"):
        jobs.stop()
    job = jobs.get(key, make, again=not params.get("stop"))
    job.wait(_PATIENCE)
    return job


def _progress(job: Job[Iterable[object]], read: int, total: int, said: str, here: str) -> Html:
    """How far it is, with a link that ends it; or how it ended."""
    if job.error:
        return notes([job.error])
    state = "Stopped: " if job.stopped else "" if job.done else "Searching: "
    shown = tag("div", bar(read / total if total else 1.0, f"{read:,} of {total:,}"), class_="progress")
    end = paragraph(tag("a", "Stop", href=f"{here}&stop=1")) if not job.done else ""
    return joined([shown, paragraph(state, said), end])


def _pace(size: int, seconds: float) -> str:
    """How quickly it goes, where it has gone on for long enough to tell."""
    return f", {speed(size, seconds)}" if size > _TELLING and seconds > 0 else ""


def _decoding() -> Html:
    return notes([
        "Every document is decoded, which is slower than a scan of tokens and finds the same: the tokens of this "
        "tokenizer have no bytes of their own, or the phrase holds U+FFFD.",
    ])  # fmt: skip


def _hit(subject: Subject, store: Store, k: int, phrase: str, hit: Hit) -> Html:
    """The phrase among what stands around it, under a link to its place in the document."""
    if hit.document is None:
        name = tag("b", f"token {hit.token:,}")
    else:
        name = link(store.document_id(hit.document), "doc", "here" if hit.token is not None else "", store=k,
                    n=hit.document, at=hit.token)  # fmt: skip
    text = tag("div", hit.before[-120:], tag("mark", phrase[:500]), hit.after[:120], class_="hit", dir="auto")
    return tag("div", name, tag("div", text, class_="snippet"), class_="found")


def _more(hits: int) -> Html:
    return paragraph(f"The first {_SHOWN} of {hits:,} are shown.", class_="faint") if hits > _SHOWN else Html("")


def _answer(subject: Subject, job: Job[Iterable[object]], title: str, body: Html) -> Answer:
    return Answer(whole(subject, title, body, here="search"), again=0 if job.done else _AGAIN)
