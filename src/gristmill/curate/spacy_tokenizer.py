"""What spaCy 3.8's tokenizer does with a chunk, in Python: for the one in a thousand that compiled code leaves.

It follows `Tokenizer` of spaCy step by step, with spaCy's own patterns, so that spaCy itself need not be imported.
"""

from __future__ import annotations

import re

from gristmill.curate.spacy_rules import MAX_SPECIAL, PATTERNS, SpacyRules


class SpacyTokenizer:
    """The tokens of chunks by these rules."""

    def __init__(self, rules: SpacyRules) -> None:
        self._rules, self._phrases = rules.rules, rules.phrases
        self._prefix, self._suffix, self._infix, self._url = (re.compile(rules.patterns[name]) for name in PATTERNS)

    def tokens(self, chunk: str) -> list[str]:
        """The tokens of what stands between white space."""
        return self._with_phrases(self._rules.get(chunk) or self._split(chunk))

    def _split(self, chunk: str) -> list[str]:
        front: list[str] = []
        back: list[str] = []
        size = 0
        while chunk and len(chunk) != size and chunk not in self._rules:
            size = len(chunk)
            before = _length(self._prefix, chunk)
            if before and chunk[before:] in self._rules:
                front.append(chunk[:before])
                chunk = chunk[before:]
                break
            after = _length(self._suffix, chunk[before:])
            if after and chunk[:-after] in self._rules:
                back.append(chunk[-after:])
                chunk = chunk[:-after]
                break
            front += [chunk[:before]] if before else []
            back += [chunk[-after:]] if after else []
            chunk = chunk[before : len(chunk) - after]
        return [*front, *self._middle(chunk), *reversed(back)]

    def _middle(self, chunk: str) -> list[str]:
        """What is left between prefixes and suffixes: a special case, an address, or parts that infixes separate."""
        if not chunk or chunk in self._rules or self._url.match(chunk):
            return self._rules.get(chunk, [chunk] if chunk else [])
        cuts = [place for found in self._infix.finditer(chunk) if found.start() for place in found.span()]
        return [chunk[i:j] for i, j in zip([0, *cuts], [*cuts, len(chunk)], strict=True) if i < j]

    def _with_phrases(self, tokens: list[str]) -> list[str]:
        """Neighbours that read as a special case (an emoticon) become its tokens; the longest where they overlap."""
        found = [
            (first - last, first, last)
            for first in range(len(tokens))
            for last in range(first + 1, min(len(tokens), first + MAX_SPECIAL) + 1)
            if self._phrases.get("".join(tokens[first:last])) == tokens[first:last]
        ]
        seen: set[int] = set()
        chosen = []
        for _, first, last in sorted(found):
            if first not in seen and last - 1 not in seen:
                chosen.append((first, last))
            seen.update(range(first, last))
        at, made = 0, list[str]()
        for first, last in sorted(chosen):
            made += [*tokens[at:first], *self._rules["".join(tokens[first:last])]]
            at = last
        return made + tokens[at:]


def _length(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return found.end() - found.start() if found else 0
