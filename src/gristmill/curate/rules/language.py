"""Keep the documents of given languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.options import check_fields
from gristmill.core.values import Share
from gristmill.curate.base import KEEP, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.rules import language_model

# Codes that other systems use for what the model knows under another name.
_ALIASES = {
    "arb": "ar",
    "cmn": "zh",
    "fil": "tl",
    "in": "id",
    "iw": "he",
    "jw": "jv",
    "mo": "ro",
    "nb": "no",
    "pes": "fa",
    "zlm": "ms",
    **language_model.RENAMED,
}


@dataclass(frozen=True)
class _Identified:
    """The language of each document, found once for all rules and limits that ask for it."""

    labels: language_model.Labels
    scores: language_model.Scores

    def take(self, rows: Ints) -> _Identified:
        return _Identified(self.labels[rows], self.scores[rows])


@dataclass(frozen=True)
class Language:
    """Drop what is not in one of the languages `keep` (all of them if empty), or not surely enough.

    Codes are those of ISO 639-1 (`en`), or of ISO 639-3 where it has none (`yue`); a region or script (`zh-Hant`,
    `pt_BR`) is ignored, since the model does not tell them apart. A document longer than `sample_bytes` is judged on
    four pieces of it, from the first to the last byte. `min_score` is a probability from 0 to 1, on a scale like
    fastText's: of paragraphs of 200 characters in 60 languages 89 in 100 have over 0.99, and 2 in 100 under 0.65.
    """

    name: ClassVar[str] = "language"

    keep: Sequence[str] = ()
    min_score: Share = 0.65
    sample_bytes: int = 2048

    def __post_init__(self) -> None:
        if isinstance(self.keep, str):
            raise ConfigError(f"language: keep is a list of codes: write keep: [{self.keep}].")
        object.__setattr__(self, "keep", tuple(normalise(code) for code in self.keep))
        check_fields(self, "language")
        if not 256 <= self.sample_bytes <= language_model.MAX_SAMPLE:
            raise ConfigError(f"language: sample_bytes is 256 to {language_model.MAX_SAMPLE}, not {self.sample_bytes}.")

    def versions(self) -> dict[str, str]:
        return language_model.versions()

    def check(self) -> None:
        """Refuse codes that the model does not know."""
        if self.keep:
            self._known()

    def judge(self, documents: Documents) -> Verdict:
        languages = self._known()
        found = documents.shared(f"language:{self.sample_bytes}", self._identified)
        labels, scores = found.labels, found.scores
        unknown = (labels < 0) | (labels == languages.index(language_model.NO_LANGUAGE))
        wanted = np.isin(labels, [languages.index(code) for code in self.keep or languages])
        codes = np.select([unknown, ~wanted, scores < self.min_score], [0, 1, 2], KEEP).astype(np.int16)
        named = {row: languages[labels[row]] for row in np.flatnonzero(codes != KEEP).tolist() if labels[row] >= 0}
        return Verdict(("language_unknown", "language_other", "language_score"), codes, scores, named)

    def _identified(self, documents: Documents) -> _Identified:
        return _Identified(*language_model.identify(documents.data, documents.offsets, self.sample_bytes))

    def _known(self) -> tuple[str, ...]:
        """The model's languages, all of `keep` among them."""
        languages = language_model.load().languages
        for code in self.keep:
            if code not in languages:
                raise ConfigError(f"The language model does not know {code!r}{did_you_mean(code, languages)}.")
        return languages


def normalise(code: str | bool) -> str:
    """`pt_BR` as `pt`, `iw` as `he`: the code that the model uses."""
    if code is False:  # YAML reads an unquoted `no` so
        return "no"
    base = str(code).replace("_", "-").split("-")[0].lower()
    return _ALIASES.get(base, base)
