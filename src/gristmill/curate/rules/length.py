"""Keep documents of a certain size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.options import check_fields, check_order
from gristmill.core.values import Count
from gristmill.curate.base import Values, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.rules.limits import Limit, first_broken
from gristmill.curate.rules.statistics import statistics
from gristmill.curate.words import words

_MEASURES = ("chars", "words", "lines")


@dataclass(frozen=True)
class Length:
    """Drop what is shorter or longer, in characters, words or lines that are not blank; None is no bound.

    Words are those of the `gristmill` splitter: one of Chinese, Japanese or Thai is a letter.
    """

    name: ClassVar[str] = "length"

    min_chars: Count = 100
    max_chars: Count | None = None
    min_words: Count = 0
    max_words: Count | None = None
    min_lines: Count = 0
    max_lines: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "length")
        check_order(self, "length", *((f"min_{measure}", f"max_{measure}") for measure in _MEASURES))

    def judge(self, documents: Documents) -> Verdict:
        limits: list[Limit] = []
        figures: list[Values] = []
        for measure in _MEASURES:
            least, most = getattr(self, f"min_{measure}"), getattr(self, f"max_{measure}")
            if measure != "chars" and (least, most) == (0, None):
                continue  # words and lines are measured where they are bounded, characters always
            limits += Limit(f"too_few_{measure}", least=least), Limit(f"too_many_{measure}", most=most)
            figures += [_sizes(documents, measure)] * 2
        return first_broken(limits, figures)


def _sizes(documents: Documents, measure: str) -> Values:
    if measure == "words":
        return words(documents, "gristmill").counts.astype(np.float64)
    if measure == "lines":
        return statistics(documents).full_lines.astype(np.float64)
    return _characters(documents).astype(np.float64)


def _characters(documents: Documents) -> Ints:
    """Counted by itself: all that other rules count takes forty times as long."""
    from gristmill.curate.rules.length_kernels import count_characters

    counts = np.empty(len(documents), np.int64)
    count_characters(documents.data, documents.offsets, counts)
    return counts
