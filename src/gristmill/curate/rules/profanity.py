"""Drop documents with words of a list: obscene, abusive, or a team's own."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import ClassVar

import numpy as np

from gristmill.core.arrays import Mask
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.hashing import fingerprint, hash64
from gristmill.core.options import check_fields
from gristmill.core.values import Share
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.rules.language import normalise
from gristmill.curate.rules.word_list import Matches, WordList, read_lines

VARIANTS = ("gristmill", "datatrove")

# Written without spaces, so that a word may stand anywhere.
_WITHOUT_SPACES = ("ja", "th", "zh")
# What C4 takes out of the Japanese and Chinese lists, too common in harmless text.
_ALLOWED = {"sm", "グロ", "女の子", "性"}


@dataclass(frozen=True)
class Profanity:
    """Drop what has too many words of the lists of these `languages` (LDNOOBW, 27 languages) and of the file `words`.

    `variant: gristmill` drops where listed words make up more than `max_ratio` of all characters in words.
    `variant: datatrove` drops at the first listed word, as C4 does, but for a `keep_fraction` of such documents, drawn
    by a hash of their text. Words match whatever their case between characters that are no part of words; in Japanese,
    Thai and Chinese anywhere.
    """

    name: ClassVar[str] = "profanity"

    languages: Sequence[str] = ("en",)
    words: str | None = None
    variant: str = "gristmill"
    max_ratio: Share = 0.045
    keep_fraction: Share = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.languages, str):
            raise ConfigError(f"profanity: languages is a list of codes: write languages: [{self.languages}].")
        object.__setattr__(self, "languages", tuple(normalise(code) for code in self.languages))
        for code in self.languages:
            if code not in known_languages():
                raise ConfigError(f"profanity: no list for {code!r}{did_you_mean(code, known_languages())}.")
        check_fields(self, "profanity")
        if self.variant not in VARIANTS:
            raise ConfigError(f"profanity: no variant {self.variant!r}{did_you_mean(self.variant, VARIANTS)}.")
        if self.variant == "gristmill" and self.keep_fraction:
            raise ConfigError("profanity: keep_fraction belongs to variant: datatrove; max_ratio does its work here.")

    def versions(self) -> dict[str, str]:
        return {"words": fingerprint([sorted(words) for words in listed(self.languages, self.words)])}

    def judge(self, documents: Documents) -> Verdict:
        matches = _matcher(self.languages, self.words, self.variant).match(documents)
        ratios = matches.listed / np.maximum(matches.characters, 1)
        dropped = ratios > self.max_ratio if self.variant == "gristmill" else self._unlucky(documents, matches)
        codes = np.where(dropped, 0, KEEP).astype(np.int16)
        # The first listed word of each dropped document, as it stands there.
        spans = {row: slice(matches.begins[row], matches.ends[row]) for row in np.flatnonzero(dropped).tolist()}
        found = {row: documents.data[span].tobytes().decode() for row, span in spans.items()}
        return Verdict(("profanity",), codes, ratios, found)

    def _unlucky(self, documents: Documents, matches: Matches) -> Mask:
        """Documents with a listed word that are not among the `keep_fraction`."""
        hit = matches.begins >= 0
        if self.keep_fraction > 0:
            for row in np.flatnonzero(hit).tolist():
                hit[row] = hash64(documents.string(row)) >= self.keep_fraction * 2.0**64
        return hit


@functools.cache
def known_languages() -> tuple[str, ...]:
    """The codes for which a list ships inside this package."""
    names = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name.removesuffix(".txt") for name in names if name.endswith(".txt")))


def listed(languages: Sequence[str], own: str | None) -> tuple[set[str], set[str]]:
    """The words that stand alone and those that stand anywhere."""
    alone = set(read_lines(own, "profanity")) if own else set()
    anywhere: set[str] = set()
    for code in languages:
        words = set((_folder() / f"{code}.txt").read_text(encoding="utf-8").splitlines()) - _ALLOWED
        (anywhere if code in _WITHOUT_SPACES else alone).update(words)
    return alone, anywhere


def _folder() -> Traversable:
    return files("gristmill.curate.rules") / "data" / "profanity"


@functools.cache
def _matcher(languages: Sequence[str], own: str | None, variant: str) -> WordList:
    """The lists as a matcher, once a process."""
    alone, anywhere = listed(languages, own)
    if variant == "gristmill":
        return WordList(alone, anywhere)
    # datatrove looks for words as they are listed in small-letter text: one with capitals is never found.
    small, small_anywhere = ({word for word in words if word == word.lower()} for words in (alone, anywhere))
    return WordList(small, small_anywhere, marks=False)
