"""The one skeleton of every page: its head, its style, its policy, and the parts that pages are made of."""

from __future__ import annotations

import pkgutil
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256

from gristmill.report.markup import Html, Mark, html, joined, marked, plain, tag

LONGEST = 1200  # characters of one text that a page shows

Section = tuple[str, str, Html]  # id, heading, content


def page(
    title: str, body: object, *, subtitle: object = "", script: str = "", forms: bool = False, looks: str = ""
) -> Html:
    """A whole document that fetches nothing and runs `script` alone; `forms` may be sent to where it came from.

    looks: what a page adds to the style of all.
    """
    head = f"""<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(script, forms, looks)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{plain(title)}</title>
<style>{style()}{looks}</style>"""
    top = joined([tag("h1", title), tag("p", subtitle, class_="subtitle") if subtitle else ""])
    run = f"<script>{script}</script>\n" if script else ""
    return Html(
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n<header>{top}</header>\n'
        f"<main>{html(body)}</main>\n{run}</body>\n</html>\n"
    )


def policy(script: str = "", forms: bool = False, looks: str = "") -> str:
    """What the page may do, for a browser: our style and script by their sums, images inside it, nothing else."""
    allowed = {
        "default-src": "'none'",
        "style-src": _summed(style() + looks),
        "script-src": _summed(script) if script else "'none'",
        "img-src": "data:",
        "connect-src": "'self'" if script else "'none'",
        "form-action": "'self'" if forms else "'none'",
        "base-uri": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _summed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def style() -> str:
    return (pkgutil.get_data("gristmill.report", "page.css") or b"").decode()


def sections(parts: Iterable[Section]) -> Html:
    """Sections under their headings, after a line of links to them."""
    parts = list(parts)
    links = joined((tag("a", heading, href=f"#{name}") for name, heading, _ in parts), " ")
    return joined([tag("nav", links), *(section(heading, content, id=name) for name, heading, content in parts)])


def section(heading: str, *content: object, id: str | None = None) -> Html:
    return tag("section", tag("h2", heading), *content, id=id)


def paragraph(*content: object, class_: str | None = None) -> Html:
    return tag("p", *content, class_=class_)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], caption: object = "", *, under: bool = False
) -> Html:
    """A table that scrolls inside of itself on a narrow screen; numbers and their headings stand to the right.

    under: the last column stands below its row there.
    """
    rows = list(rows)
    first = rows[0] if rows else [""] * len(columns)
    names = [tag("th", name, scope="col", class_=_kind(value)) for name, value in zip(columns, first, strict=True)]
    if under:
        names[-1] = tag("th", columns[-1], scope="col", class_="wide")
    body = joined(_row_and_under(row) if under else tag("tr", *map(cell, row)) for row in rows)
    heading = tag("thead", tag("tr", *names))
    whole = tag("table", tag("caption", caption) if caption else "", heading, tag("tbody", body))
    return tag("div", whole, class_="table", tabindex="0")


def _row_and_under(row: Sequence[object]) -> Html:
    *cells, last = row
    whole = tag("tr", *map(cell, cells), tag("td", last, class_="wide"))
    return joined([whole, tag("tr", tag("td", last, colspan=str(len(cells))), class_="under")]) if last else whole


def cell(value: object) -> Html:
    return tag("td", value, class_=_kind(value))


def _kind(value: object) -> str | None:
    return "n" if isinstance(value, int | Number) else None


class Number(Html):
    """Markup of a number: it stands to the right in a table."""

    __slots__ = ()


def percent(share: float | None) -> Number:
    """`12.3 %`; a share that is not nothing never reads as 0."""
    if share is None:
        return Number("–")
    return Number(f"{share:.1%}".replace("%", " %") if share == 0 or abs(share) >= 0.0005 else "&lt; 0.1 %")


def bar(share: float, label: str = "", kind: str = "") -> Html:
    """A bar of 0 to 1 of its cell's width; `label` is what hovering says."""
    width = max(0.0, min(share, 1.0)) * 100
    title = f"<title>{plain(label)}</title>" if label else ""
    return Html(
        f'<svg class="bar {plain(kind)}" viewBox="0 0 100 10" preserveAspectRatio="none" role="img"'
        f' aria-label="{plain(label)}">{title}<rect class="whole" width="100" height="10"/>'
        f'<rect width="{width:.2f}" height="10"/></svg>'
    )


def figure(content: object, caption: object = "", class_: str | None = None) -> Html:
    return tag("figure", tag("figcaption", caption) if caption else "", content, class_=class_)


def grid(*parts: object) -> Html:
    """Parts side by side where there is room for it, else one under the other."""
    return tag("div", *parts, class_="grid")


def facts(pairs: Mapping[str, object]) -> Html:
    """Names and their values, as a list of definitions."""
    rows = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items())
    return tag("dl", *rows, class_="facts")


def tiles(pairs: Mapping[str, object]) -> Html:
    """The few figures that matter most, large."""
    rows = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items())
    return tag("dl", *rows, class_="tiles")


def notes(texts: Iterable[object], kind: str = "warning") -> Html:
    """Sentences that a reader must not miss, each in its box."""
    return joined(tag("p", text, class_=f"note {kind}") for text in texts)


def details(summary: object, *content: object, open: bool = False) -> Html:
    return tag("details", tag("summary", summary), *content, open=open)


def snippet(text: str, marks: Sequence[Mark] = (), most: int = LONGEST) -> Html:
    """A document's text, parts of it marked: at most `most` characters, around its first mark."""
    begin, end = window(len(text), marks[0] if marks else (0, 0), most)
    inside = [(start - begin, stop - begin) for start, stop in marks]
    before = tag("span", f"… {begin:,} characters before", class_="cut") if begin else ""
    after = tag("span", f"… {len(text) - end:,} characters more", class_="cut") if end < len(text) else ""
    return tag("div", before, tag("pre", marked(text[begin:end], inside), dir="auto"), after, class_="snippet")


def window(length: int, mark: Mark, most: int) -> Mark:
    """Which `most` characters of `length` to show so that `mark`'s beginning is among them, a third from the left."""
    begin = max(0, min(mark[0] - most // 3, length - most))
    return begin, min(length, begin + most)


def size(count: float) -> Number:
    """`3.8 MB`: decimal units."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while abs(count) >= 1000 and len(units) > 1:
        count, units = count / 1000, units[1:]
    return Number(f"{count:,.0f} {units[0]}" if units[0] == "bytes" or count >= 100 else f"{count:.3g} {units[0]}")
