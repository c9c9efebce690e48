"""Two texts side by side, their differences marked."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import islice

from gristmill.report.markup import Html, plain, tag

_MOST_WORDS = 400  # difflib takes quadratic time
_WORDS = re.compile(r"\s*\S+|\s+")
_LONGEST = 2000


def side_by_side(left_name: str, left: str, right_name: str, right: str) -> Html:
    """The beginnings of both, words that the other does not have marked."""
    ours, theirs = _words(left), _words(right)
    matched = SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
    shown = [Html("".join(_part(ours[a:b], "del", kind) for kind, a, b, _, _ in matched)),
             Html("".join(_part(theirs[c:d], "ins", kind) for kind, _, _, c, d in matched))]  # fmt: skip
    whole = [(left_name, left, ours, shown[0]), (right_name, right, theirs, shown[1])]
    return tag("div", *(_side(name, text, words, made) for name, text, words, made in whole), class_="grid")


def _side(name: str, text: str, words: list[str], made: Html) -> Html:
    left = len(text) - sum(map(len, words))
    more = tag("span", f"… {left:,} characters more", class_="cut") if left else ""
    return tag("div", tag("div", name, class_="faint id"), tag("pre", made, dir="auto"), more, class_="snippet")


def _words(text: str) -> list[str]:
    """The first words with the blanks before them; one without end is cut."""
    words = [found[0] for found in islice(_WORDS.finditer(text[:_LONGEST]), _MOST_WORDS)]
    return words or [text[:_LONGEST]]


def _part(words: list[str], name: str, kind: str) -> str:
    text = plain("".join(words))
    return text if kind == "equal" or not text else f"<{name}>{text}</{name}>"
