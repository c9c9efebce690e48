"""Parts that pages share: addresses relative to the token's folder, forms, and links to what comes before and after.

Every address is the name of a page and plain values, `doc?store=0&n=12`: none is ever a path of a file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlencode

from gristmill.core.errors import ConfigError
from gristmill.report.markup import Html, joined, plain, tag
from gristmill.report.page import page
from gristmill.view.subject import Subject

Params = Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """A page, or where to go instead; `again` is after how many seconds the browser asks once more."""

    html: str = ""
    go_to: str = ""
    status: int = 200
    again: int = 0


@cache
def view_style() -> str:
    """What the viewer's pages add to the style of all."""
    return (pkgutil.get_data("gristmill.view", "view.css") or b"").decode()


def whole(subject: Subject, title: str, body: object, *, here: str = "", subtitle: object = "") -> str:
    """A whole page under the links that all have; `here` is the one that it stands for."""
    links = [("./", "Overview"), ("docs", "Documents"), ("search", "Search"), ("dropped", "Dropped")]
    links += [("step", "Steps")] if subject.plan else []
    current = {here: "page"}
    shown = tag("nav", *(tag("a", text, href=name, aria_current=current.get(name)) for name, text in links))
    return page(title, joined([shown, body]), subtitle=subtitle, forms=True, looks=view_style())


def address(name: str, fragment: str = "", /, **values: object) -> str:
    """The address of a page; values that are None or empty are left out."""
    given = {key: str(value) for key, value in values.items() if value is not None and value != ""}
    return f"{name}{'?' if given else ''}{urlencode(given)}{'#' if fragment else ''}{fragment}"


def link(text: object, name: str, fragment: str = "", /, **values: object) -> Html:
    """A link to a page."""
    return tag("a", text, href=address(name, fragment, **values))


def form(action: str, *fields: Html, button: str) -> Html:
    """Fields that are sent to a page as its values."""
    return tag("form", *fields, tag("button", button), action=action, method="get", class_="ask")


def hidden(name: str, value: object) -> Html:
    """A value that a form sends along."""
    return Html(tag("input", name_=name, value=value, type="hidden").removesuffix("</input>"))


def entry(label: str, name: str, value: str = "", kind: str = "text", wide: bool = False) -> Html:
    """A labelled field to type in."""
    typed = tag("input", name_=name, value=value, type=kind, required=True, autocomplete="off", dir="auto", min="0")
    return tag("label", tag("span", label), Html(typed.removesuffix("</input>")), class_="wide" if wide else None)


def choice(label: str, name: str, options: Sequence[tuple[str, str]], chosen: str = "") -> Html:
    """A labelled list to choose from: values and what stands for them."""
    made = (tag("option", Html(plain(text)), value=value, selected=value == chosen) for value, text in options)
    return tag("label", tag("span", label), tag("select", *made, name_=name))


def store_choice(subject: Subject, chosen: int = 0) -> Html:
    """Which store is meant, where there are several."""
    if len(subject.stores) < 2:
        return hidden("store", 0)
    return choice("in", "store", [(str(i), name) for i, name in enumerate(subject.names)], str(chosen))


def pager(*links: Html | None) -> Html:
    """Links to what comes before and after; none where there is nothing."""
    return tag("p", joined([each for each in links if each], " "), class_="pager")


def number(params: Params, name: str, default: int | None = None, most: int | None = None) -> int:
    """A whole number of 0 or more from a page's values."""
    text = params.get(name, "").replace(",", "").strip()
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ConfigError(f"{name} must be a whole number of 0 or more, not {text!r}.")
    return int(text) if most is None else min(int(text), most)
