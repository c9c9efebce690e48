"""The rules of C4 (Raffel et al. 2020): lines that are no sentences go, and pages that are no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gristmill.core.arrays import Ints, Mask
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.options import check_fields
from gristmill.core.values import Count
from gristmill.curate.base import KEEP, Codes, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.words import WordRule, words

# In characters: no text is longer than 2 GiB.
_NO_LIMIT = 1 << 31

STEPS = ("citations", "terminal", "lorem_ipsum", "javascript", "curly_bracket", "policy")


@dataclass(frozen=True)
class _Variant:
    """What the implementations disagree on; APOSTROPHE: `'` ends a sentence too, WORDS_AFTER: without citations."""

    splitter: str
    min_words: int
    min_sentences: int
    switches: tuple[str, ...]


_VARIANTS = {
    "c4": _Variant("gristmill", 5, 3, ("WORDS_AFTER",)),
    "datatrove": _Variant("spacy", 3, 5, ("APOSTROPHE",)),
}


@dataclass(frozen=True)
class C4(WordRule):
    """Keep the lines of a document that read like sentences, and drop it if too few sentences are left.

    In this order, a line goes if a word of it is too long; loses its citations ([1], [edit], [citation needed]); goes
    unless it ends in . ? ! or \" and not in an ellipsis; goes if it has too few words or mentions javascript or a
    policy on cookies, privacy or terms of use. A document goes if a line still there has `lorem ipsum` or `{`. `skip`
    names STEPS to leave out. Length, language and bad words, which C4 looks at too, are rules of their own.

    `c4` is the reference code, but for sentences: those are found by the marks that end them instead of NLTK's trained
    model, whose file no package brings. `datatrove` decides as datatrove 0.10.1 does: a line may also end in ', its
    words are counted with citations, and the least numbers of words and sentences are 3 and 5 instead of 5 and 3.
    """

    name: ClassVar[str] = "c4"
    splitters: ClassVar[Mapping[str, str]] = {name: variant.splitter for name, variant in _VARIANTS.items()}

    variant: str = "c4"
    # The variant's own where they are not given; 0 turns a test off.
    min_words: Count | None = None
    min_sentences: Count | None = None
    max_word_chars: Count = 1000
    skip: Sequence[str] = ()

    reasons: ClassVar[tuple[str, ...]] = ("lorem_ipsum", "curly_bracket", "too_few_sentences")

    def __post_init__(self) -> None:
        super().__post_init__()
        for step in self.skip:
            if step not in STEPS:
                raise ConfigError(f"c4 has no step {step!r} to skip{did_you_mean(step, STEPS)}.")

    def judge(self, documents: Documents) -> Verdict:
        edited, codes, lines, ragged = self._edit(documents)
        values = np.full(len(codes), np.nan)
        # A line has a sentence at least, so that most documents need no count of them, nor their words.
        rows = np.flatnonzero((codes == KEEP) & (lines < self._min_sentences))
        if len(rows):
            sentences = self._count_sentences(edited.take(rows), lines[rows], ragged[rows])
            few = sentences < self._min_sentences
            codes[rows[few]], values[rows[few]] = self.reasons.index("too_few_sentences"), sentences[few]
        return Verdict(self.reasons, codes, values, documents=edited)

    @property
    def _min_sentences(self) -> int:
        return _VARIANTS[self.variant].min_sentences if self.min_sentences is None else self.min_sentences

    def _options(self) -> tuple[int, int, int]:
        from gristmill.curate.rules import c4_kernels

        own = _VARIANTS[self.variant]
        steps = [step.upper() for step in STEPS if step not in self.skip]
        switches = sum(getattr(c4_kernels, switch) for switch in (*steps, *own.switches))
        return switches, own.min_words if self.min_words is None else self.min_words, self.max_word_chars or _NO_LIMIT

    def _edit(self, documents: Documents) -> tuple[Documents, Codes, Ints, Mask]:
        """The edited documents, the codes so far, the lines left, and which lost white space that was a token."""
        from gristmill.curate.characters import characters
        from gristmill.curate.rules.c4_kernels import READ_AHEAD, edit

        rows, size = len(documents), int(documents.offsets[-1] - documents.offsets[0])
        codes, lines, ragged = np.empty(rows, np.int16), np.empty(rows, np.int64), np.empty(rows, np.bool_)
        data, bounds = np.empty(size + READ_AHEAD, np.uint8), np.empty(rows + 1, np.int64)
        edit(documents.data, documents.offsets, characters(), self._options(), codes, lines, ragged, data, bounds)
        return documents.with_text(data[: bounds[-1]], bounds), codes, lines, ragged

    def _count_sentences(self, edited: Documents, lines: Ints, ragged: Mask) -> Ints:
        """The sentences of each document: one a line, and one more for each that begins inside of a line."""
        from gristmill.curate.rules.c4_kernels import add_sentence_breaks

        split = words(edited, self.splitter)
        columns = split.offsets, split.starts, split.ends, split.flags
        add_sentence_breaks(edited.data, edited.offsets, columns, ragged, lines)
        return lines


@dataclass(frozen=True)
class C4Paragraph:
    """Drop a document with fewer than `min_paragraphs` lines of `min_chars` characters: mC4's rule, as in datatrove."""

    name: ClassVar[str] = "c4_paragraph"

    min_paragraphs: Count = 3
    min_chars: Count = 200

    def __post_init__(self) -> None:
        check_fields(self, "c4_paragraph")

    def judge(self, documents: Documents) -> Verdict:
        from gristmill.curate.rules.c4_kernels import count_long_lines

        counts = np.empty(len(documents), np.int64)
        count_long_lines(documents.data, documents.offsets, self.min_chars, counts)
        few = counts < self.min_paragraphs
        return Verdict(("too_few_paragraphs",), np.where(few, 0, KEEP).astype(np.int16), np.where(few, counts, np.nan))
