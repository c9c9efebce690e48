"""The repetition rules of Gopher (Rae et al. 2021, table A1): lines, paragraphs and n-grams that come again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.core.values import Positive, Share
from gristmill.curate.base import KEEP, Codes, Values, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.words import WordRule, words

Limits = Sequence[tuple[Positive, Share]]


@dataclass(frozen=True)
class GopherRepetition(WordRule):
    """Drop a document when more than a stated share of it is repetition. `null` for a limit turns its test off.

    A paragraph ends at two newlines or more, a line at one or more; the second copy of one and those after it count.
    The top n-gram is the most frequent one, its spaces included. A repeated n-gram is one that came before; it is
    passed over whole, so that no word counts twice. Shares of characters are of the whole text, white space included.

    `datatrove` splits words by spaCy and decides as datatrove 0.10.1 does. `gristmill` splits words by itself, and
    leaves three oddities out: there a newline at the end of a text adds an empty line, a short text is dropped for a
    top n-gram that comes but once, and n-grams are equal whose words are not ("a bc", "ab c").
    """

    name: ClassVar[str] = "gopher_repetition"

    dup_para_frac: Share | None = 0.30
    dup_para_char_frac: Share | None = 0.20
    dup_line_frac: Share | None = 0.30
    dup_line_char_frac: Share | None = 0.20
    # Pairs of n and the share of the text that n-grams of that size may fill, with rising n.
    top_n_grams: Limits = ((2, 0.20), (3, 0.18), (4, 0.16))
    dup_n_grams: Limits = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, limits in (("top_n_grams", self.top_n_grams), ("dup_n_grams", self.dup_n_grams)):
            sizes = [size for size, _ in limits]
            if sizes != sorted(set(sizes)):
                raise ConfigError(f"gopher_repetition: {option} needs pairs [n, share] with rising n.")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a document can go, in the order of the tests."""
        segments = ("empty", "dup_para_frac", "dup_para_char_frac", "dup_line_frac", "dup_line_char_frac")
        tops = (f"top_{size}_gram" for size, _ in self.top_n_grams)
        return (*segments, *tops, *(f"duplicated_{size}_n_grams" for size, _ in self.dup_n_grams))

    def judge(self, documents: Documents) -> Verdict:
        codes, values = np.full(len(documents), KEEP, np.int16), np.full(len(documents), np.nan)
        self._judge_segments(documents, codes, values)
        if (codes == KEEP).any():
            self._judge_grams(documents, codes, values)
        return Verdict(self.reasons, codes, values)

    def _judge_segments(self, documents: Documents, codes: Codes, values: Values) -> None:
        from gristmill.curate.characters import characters
        from gristmill.curate.rules.repetition_kernels import judge_segments

        limits = (self.dup_para_frac, self.dup_para_char_frac, self.dup_line_frac, self.dup_line_char_frac)
        shares = np.array([math.inf if limit is None else limit for limit in limits])
        bare = self.variant == "gristmill"
        judge_segments(documents.data, documents.offsets, characters(), bare, shares, codes, values)

    def _judge_grams(self, documents: Documents, codes: Codes, values: Values) -> None:
        from gristmill.curate.rules.repetition_kernels import judge_grams

        split = words(documents, self.splitter)
        first = self.reasons.index("dup_line_char_frac") + 1
        columns = split.offsets, split.starts, split.ends, split.hashes, split.chars
        tops, copies = _columns(self.top_n_grams), _columns(self.dup_n_grams)
        joined = self.variant == "datatrove"
        judge_grams(documents.data, documents.offsets, columns, joined, tops, copies, first, codes, values)


def _columns(limits: Limits) -> tuple[Ints, Values]:
    return np.array([size for size, _ in limits], np.int64), np.array([share for _, share in limits], np.float64)
