"""The quality rules of FineWeb (Penedo et al. 2024): are the lines of this page those of prose?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gristmill.core.values import Amount, Count, Share
from gristmill.curate.base import Values, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.rules.limits import Limit, first_broken
from gristmill.curate.words import WordRule, words


@dataclass(frozen=True)
class FineWeb(WordRule):
    """Drop a page of too few lines that end as sentences do, too many short or repeated ones, too many for its words.

    Lines end at line feeds; blank ones do not count. `char_dup_ratio` is of the characters without line feeds, 0.01 in
    the code that made FineWeb. `line_punct_exempt_zero` keeps pages in which no line at all ends in punctuation.
    None is no limit.

    `datatrove` splits words by spaCy and decides as datatrove 0.10.1 does; `gristmill` differs in its words only.
    """

    name: ClassVar[str] = "fineweb"

    line_punct_ratio: Share | None = 0.12
    line_punct_exempt_zero: bool = False
    short_line_chars: Count = 30
    short_line_ratio: Share | None = 0.67
    char_dup_ratio: Share | None = 0.01
    list_ratio: Amount | None = 0.3

    @property
    def limits(self) -> Sequence[Limit]:
        """The tests in their order, one a row of figures."""
        return (
            Limit("empty", least=1),
            Limit("line_punct_ratio", least=self.line_punct_ratio),
            Limit("short_line_ratio", most=self.short_line_ratio),
            Limit("char_dup_ratio", most=self.char_dup_ratio),
            Limit("list_ratio", most=self.list_ratio),
        )

    def judge(self, documents: Documents) -> Verdict:
        return first_broken(self.limits, self._measure(documents))

    def _measure(self, documents: Documents) -> list[Values]:
        """Lines, the shares of those that end in punctuation, are short, come again, and line feeds per word."""
        from gristmill.curate.characters import characters
        from gristmill.curate.rules.fineweb_kernels import measure_lines

        figures = np.zeros((5, len(documents)))
        measure_lines(documents.data, documents.offsets, characters(), self.short_line_chars, figures)
        if self.line_punct_exempt_zero:
            figures[1][figures[1] == 0] = np.nan
        # A page without a line has no word either, and is gone by then.
        figures[4] /= np.maximum(words(documents, self.splitter).counts, 1)
        return list(figures)
