"""Drop documents by the address that they came from."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.core.options import check_fields
from gristmill.core.values import Positive
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.rules.word_list import read_lines

_REASONS = ("url_domain", "url_listed", "url_word", "url_soft_words", "url_substring")
_NOT_ALPHANUMERIC = re.compile(r"[^a-zA-Z0-9]+")

Listed = str | Sequence[str]


@dataclass(frozen=True)
class UrlList:
    """Drop by lists, each given in place or as the path of a file with one entry a line (`#` begins a comment).

    `domains` match a host and all hosts below it (`a.com` also `www.a.com`). `urls` match whole addresses, whatever
    their scheme, a leading `www.`, a fragment and a final slash. `words` match one run of ASCII letters and digits of
    the address, whatever its case; of `soft_words`, `min_soft_words` different ones must. `substrings` match anywhere
    in the address's letters and digits.
    """

    name: ClassVar[str] = "url"

    field: str = "url"
    domains: Listed = ()
    urls: Listed = ()
    words: Listed = ()
    soft_words: Listed = ()
    substrings: Listed = ()
    min_soft_words: Positive = 2

    def __post_init__(self) -> None:
        for option in fields(self):
            if isinstance(value := getattr(self, option.name), list):
                object.__setattr__(self, option.name, tuple(value))
        check_fields(self, "url")

    def versions(self) -> dict[str, str]:
        return {option: fingerprint(entries(getattr(self, option))) for option in ("domains", "urls", *_WORDS)}

    def judge(self, documents: Documents) -> Verdict:
        if self.field not in documents.batch.schema.names:
            raise ConfigError(
                f"filter url: the documents have no column {self.field!r}: carry it by the source's `fields`."
            )
        lists = _lists(self)
        found = [lists.find(url) if url else None for url in documents.batch.column(self.field).to_pylist()]
        codes = np.array([KEEP if hit is None else hit[0] for hit in found], np.int16)
        return Verdict(_REASONS, codes, None, {row: hit[1] for row, hit in enumerate(found) if hit is not None})


_WORDS = ("words", "soft_words", "substrings")


def entries(listed: Listed) -> tuple[str, ...]:
    """What a list holds: itself, or the lines of the file that it names."""
    return read_lines(listed, "filter url") if isinstance(listed, str) else tuple(listed)


@dataclass(frozen=True)
class _Lists:
    domains: frozenset[str]
    urls: frozenset[str]
    words: frozenset[str]
    soft_words: frozenset[str]
    substrings: re.Pattern[str] | None
    min_soft_words: int

    def find(self, url: str) -> tuple[int, str] | None:
        """The first reason (its place in _REASONS) to drop an address, and the entry that it matched."""
        labels, page = _host(url).split("."), page_of(url)
        for above in (".".join(labels[i:]) for i in range(len(labels))):  # a.b.c, b.c, c
            if above in self.domains:
                return 0, above
        if page in self.urls:
            return 1, page
        return self._find_words(url)

    def _find_words(self, url: str) -> tuple[int, str] | None:
        parts = set(_NOT_ALPHANUMERIC.split(url.lower()))
        if hard := parts & self.words:
            return 2, min(hard)
        if len(soft := parts & self.soft_words) >= self.min_soft_words:
            return 3, " ".join(sorted(soft))
        inside = self.substrings.search(plain(url)) if self.substrings else None
        return (4, inside.group()) if inside else None


@functools.lru_cache(maxsize=8)
def _lists(rule: UrlList) -> _Lists:
    """The lists of a rule as sets, once a process."""
    substrings = sorted(filter(None, map(plain, entries(rule.substrings))))
    return _Lists(
        domains=frozenset(domain.lower().strip(".") for domain in entries(rule.domains)),
        urls=frozenset(map(page_of, entries(rule.urls))),
        words=frozenset(map(plain, entries(rule.words))) - {""},
        soft_words=frozenset(map(plain, entries(rule.soft_words))) - {""},
        substrings=re.compile("|".join(substrings)) if substrings else None,
        min_soft_words=rule.min_soft_words,
    )


def plain(text: str) -> str:
    """The ASCII letters and digits of a text, small."""
    return _NOT_ALPHANUMERIC.sub("", text).lower()


def _host(url: str) -> str:
    """The host of an address, also of one without a scheme; broken ones have none."""
    try:
        return (urlsplit(url if "://" in url else f"//{url}").hostname or "").strip(".")
    except ValueError:
        return ""


def page_of(url: str) -> str:
    """An address without scheme, leading `www.`, fragment and final slash."""
    return url.split("#")[0].split("://", 1)[-1].removeprefix("www.").rstrip("/")
