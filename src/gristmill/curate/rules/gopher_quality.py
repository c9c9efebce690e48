"""The quality rules of Gopher (Rae et al. 2021, section A1.1): is this text, by its words and lines?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gristmill.core.options import check_order
from gristmill.core.values import Amount, Count, Share
from gristmill.curate.base import Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.rules.limits import Limit, first_broken
from gristmill.curate.words import WordRule, words

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")


@dataclass(frozen=True)
class GopherQuality(WordRule):
    """Drop a document whose words are too few, too many, too short, too long, or hardly words. None is no limit.

    Symbols are `#`, and apart from it `...` and `…`; their share is per word, punctuation counted among the words,
    which the number and the mean length of words leave out. Lines are those of `str.splitlines`. Stop words are
    counted once each, in small letters only.

    `datatrove` splits words by spaCy and decides as datatrove 0.10.1 does. `gristmill` has its own words, and asks how
    many of them hold a letter without counting punctuation among them: prose with many commas is no less prose.
    """

    name: ClassVar[str] = "gopher_quality"

    min_words: Count | None = 50
    max_words: Count | None = 100_000
    min_mean_chars: Amount | None = 3
    max_mean_chars: Amount | None = 10
    max_symbol_ratio: Amount | None = 0.1
    max_bullet_ratio: Share | None = 0.9
    max_ellipsis_ratio: Share | None = 0.3
    min_alpha_ratio: Share | None = 0.8
    min_stop_words: Count | None = 2
    stop_words: Sequence[str] = STOP_WORDS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_order(self, "gopher_quality", ("min_words", "max_words"), ("min_mean_chars", "max_mean_chars"))

    @property
    def limits(self) -> Sequence[Limit]:
        """The tests in their order, one a row of `measure`; datatrove's name for the last says the opposite."""
        return (
            Limit("gopher_short_doc", least=self.min_words),
            Limit("gopher_long_doc", most=self.max_words),
            # Only a document without words has none of the figures below; it gets this far without `min_words`.
            Limit("empty", least=1),
            Limit("gopher_below_avg_threshold", least=self.min_mean_chars),
            Limit("gopher_above_avg_threshold", most=self.max_mean_chars),
            Limit("gopher_too_many_hashes", most=self.max_symbol_ratio),
            Limit("gopher_too_many_ellipsis", most=self.max_symbol_ratio),
            Limit("gopher_too_many_bullets", most=self.max_bullet_ratio),
            Limit("gopher_too_many_end_ellipsis", most=self.max_ellipsis_ratio),
            Limit("gopher_below_alpha_threshold", least=self.min_alpha_ratio),
            Limit("gopher_enough_stop_words", least=self.min_stop_words),
        )

    def judge(self, documents: Documents) -> Verdict:
        counted, all_words, mean, hashes, ellipses, bullets, ends, alpha, stops = self._measure(documents)
        if self.variant == "gristmill":
            alpha = alpha * all_words / np.maximum(counted, 1)
        return first_broken(
            self.limits, (counted, counted, all_words, mean, mean, hashes, ellipses, bullets, ends, alpha, stops)
        )

    def _measure(self, documents: Documents) -> npt.NDArray[np.float64]:
        from gristmill.core.kernels.slots import hash_set
        from gristmill.curate.characters import characters
        from gristmill.curate.rules.gopher_quality_kernels import measure_lines, measure_words

        split = words(documents, self.splitter)
        figures = np.zeros((9, len(documents)))
        measure_words(split.offsets, split.hashes, split.chars, split.flags, hash_set(self.stop_words), figures)
        measure_lines(documents.data, documents.offsets, characters(), figures)
        return figures
