"""Which part of a dropped document broke a rule, as far as its reason, its detail and its text tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

Mark = tuple[int, int]
_MOST = 40
_LINE = re.compile(r"[^\n]+")
_PARAGRAPH = re.compile(r"[^\n]+(?:\n[^\n]+)*")
_WORD = re.compile(r"\w+")
_BULLET, _ELLIPSIS = "•‣▶◀◦■□▪▫–-*", ("...", "…")


def offending(reason: str, detail: str | None, text: str) -> list[Mark]:
    """Parts of `text`, as characters from and to, for which it went: at most 40, none where nobody can say."""
    finder = next((find for pattern, find in _FINDERS.items() if re.fullmatch(pattern, reason)), None)
    found = [*(_named(detail, text) if detail else ()), *(finder(reason, text) if finder else ())]
    return sorted(found[:_MOST])


def _named(detail: str, text: str) -> Iterator[Mark]:
    """Where what a rule found (a word, a line, the words of an evaluation) stands."""
    for named in (detail, detail.partition(": ")[2]):
        words = _WORD.findall(named)
        if len(named) > 3 and words:
            pattern = r"\W+".join(map(re.escape, words))
            yield from (found.span() for found in re.finditer(pattern, text, re.IGNORECASE))


def _again(pattern: re.Pattern[str]) -> Callable[[str, str], Iterator[Mark]]:
    """Lines or paragraphs that came before."""

    def find(_: str, text: str) -> Iterator[Mark]:
        seen: set[str] = set()
        for found in pattern.finditer(text):
            if found[0].strip() in seen:
                yield found.span()
            seen.add(found[0].strip())

    return find


def _n_grams(reason: str, text: str) -> Iterator[Mark]:
    """Runs of words that came before, or that come most often."""
    size = int(re.findall(r"\d+", reason)[0])
    words = [(found[0].lower(), *found.span()) for found in _WORD.finditer(text)]
    seen: set[tuple[str, ...]] = set()
    for at in range(len(words) - size + 1):
        run = tuple(word for word, _, _ in words[at : at + size])
        if run in seen:
            yield words[at][1], words[at + size - 1][2]
        seen.add(run)


def _lines(fits: Callable[[str], bool]) -> Callable[[str, str], Iterator[Mark]]:
    return lambda _, text: (found.span() for found in _LINE.finditer(text) if fits(found[0].strip()))


def _parts(pattern: str) -> Callable[[str, str], Iterator[Mark]]:
    return lambda _, text: (found.span() for found in re.finditer(pattern, text, re.IGNORECASE))


_FINDERS: Mapping[str, Callable[[str, str], Iterator[Mark]]] = {
    "dup_para.*": _again(_PARAGRAPH),
    "dup_line.*|char_dup_ratio": _again(_LINE),
    r"(top|dup|duplicated)_\d+.*gram.*|(top|dup)_n_gram.*\d.*": _n_grams,
    ".*bullets": _lines(lambda line: line[:1] != "" and line[0] in _BULLET),
    ".*end_ellipsis": _lines(lambda line: line.endswith(_ELLIPSIS)),
    ".*too_many_hashes": _parts("#"),
    ".*too_many_ellipsis": _parts(r"\.\.\.|…"),
    "short_line_ratio": _lines(lambda line: len(line) <= 30),
    "line_punct_ratio": _lines(lambda line: line[-1:] not in ".!?\"'…。！？"),
    "lorem_ipsum": _parts("lorem ipsum"),
    "curly_bracket": _parts("[{}]"),
    "javascript": _parts("javascript"),
    "long_line": lambda _, text: iter([max((f.span() for f in _LINE.finditer(text)), key=lambda s: s[1] - s[0])]),
}
