"""Markup from values: whatever is not `Html` already is escaped, and texts of documents keep their direction to
themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

# What a browser would drop or replace, and what would let a text look like another: shown as a symbol instead.
_UNSEEN = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {
    0x7F: "\u2421",
    **dict.fromkeys([*range(0x80, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\ufffd"),
}
_TAG = re.compile(r"[a-z][a-z0-9]*")

Mark = tuple[int, int]  # characters from, to


class Html(str):
    """Text that is markup: made by the functions of this room alone."""

    __slots__ = ()


def html(value: object) -> Html:
    """A value as it stands on a page: `Html` as it is, whole numbers with separators, texts isolated and escaped."""
    if isinstance(value, Html):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Html(f"{value:,}")
    return Html("") if value is None else isolated(str(value))


def visible(text: str) -> str:
    """A text with symbols for its control characters."""
    return text.translate(_UNSEEN)


def plain(text: str) -> str:
    """A text escaped, its control characters as symbols: for attributes, and where direction does not matter."""
    return escape(visible(text))


def isolated(text: str) -> Html:
    """A text whose direction ends with it: marks that turn the writing around do so inside of it only.

    Plain ASCII turns nothing.
    """
    return Html(plain(text)) if text.isascii() else Html(f'<bdi dir="auto">{plain(text)}</bdi>')


def joined(parts: Iterable[object], between: str = "") -> Html:
    return Html(between.join(html(part) for part in parts))


def tag(name: str, *content: object, **attributes: object) -> Html:
    """An element: `tag("a", "text", href="#x", class_="y")`; attributes that are None or False are left out."""
    assert _TAG.fullmatch(name)
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{given}>{joined(content)}</{name}>")


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{plain(str(value))}"'


def marked(text: str, marks: Sequence[Mark] = ()) -> Html:
    """A text with parts of it in `<mark>`; parts that overlap are one, and those outside of it are left out."""
    parts, at = [], 0
    for begin, end in merged(marks, len(text)):
        parts += [plain(text[at:begin]), "<mark>", plain(text[begin:end]), "</mark>"]
        at = end
    return Html("".join([*parts, plain(text[at:])]))


def merged(marks: Sequence[Mark], length: int) -> list[Mark]:
    """Marks in order, inside of `length` characters, none of which touches the next."""
    whole: list[Mark] = []
    for begin, end in sorted((max(begin, 0), min(end, length)) for begin, end in marks):
        if whole and begin <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        elif begin < end:
            whole.append((begin, end))
    return whole
