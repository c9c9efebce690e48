"""Rules on source code: how much of a text is code, and whether a source file is worth reading."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gristmill.core.errors import ConfigError
from gristmill.core.options import check_fields, check_order
from gristmill.core.values import Amount, Count, Share
from gristmill.curate.base import KEEP, Values, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.rules.limits import Limit, first_broken
from gristmill.curate.rules.statistics import statistics
from gristmill.curate.words import words


@dataclass(frozen=True)
class CodeRatio:
    """Drop what has more than the share `max` (or less than `min`) of lines that look like code, of those not blank.

    A line looks like code if it earns two points. Two each: it ends with { or }, or with ; after fewer than 5 blanks;
    it begins with a keyword (def, return, #include) or with one that prose has too (for, class) and ends with a colon
    or has fewer than 3 blanks; it is a tag. One each: it ends with ; ( [ = or a backslash; it has an operator
    (== -> ::), an assignment, a call, a compound name (snake_case, camelCase, a.b); having one of these, it is
    indented. A line of more than 40 blanks is a paragraph. Of Python's standard library half of all files
    have over 0.69; of novels, speeches and help pages 95 in 100 documents have at most 0.05.
    """

    name: ClassVar[str] = "code_ratio"

    max: Share = 0.5
    min: Share = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "code_ratio")
        check_order(self, "code_ratio", ("min", "max"))

    def judge(self, documents: Documents) -> Verdict:
        from gristmill.curate.rules import code_kernels as kernels

        counts = np.zeros((len(documents), 2), np.int64)
        kernels.count_code(documents.data, documents.offsets, *_keywords(), counts)
        ratios = counts[:, 0] / np.maximum(counts[:, 1], 1)
        codes = np.select([ratios > self.max, ratios < self.min], [0, 1], KEEP).astype(np.int16)
        return Verdict(("too_much_code", "too_little_code"), codes, ratios)


@functools.cache
def _keywords() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The keywords as numbers: their bytes, the first one lowest."""
    from gristmill.curate.rules import code_kernels as kernels

    certain, shared = (
        [int.from_bytes(word.encode(), "little") for word in group.split()]
        for group in (kernels.KEYWORDS, kernels.SHARED_KEYWORDS)
    )
    return np.array(certain, np.uint64), np.array(shared, np.uint64)


@dataclass(frozen=True)
class CodeQuality:
    """Drop source files by the rules of RedPajama and BigCode (the defaults); those of NeMo are options.

    Lines are in characters; a file's mean is over all its lines, blank ones too. Tokens are the words and marks of the
    `gristmill` splitter. `min_comments` and `max_comments` bound the share of characters on lines of comment (#, //,
    --, /* */, triple quotes): NeMo has 0.01 and 0.85, with 10 to 20,000 lines. `extensions` (`[py, rs]`) are looked up
    in the column `path`; empty allows all.
    """

    name: ClassVar[str] = "code_quality"

    max_line: Count = 1000
    max_mean_line: Amount = 100.0
    min_alphanumeric: Share = 0.25
    min_alphabetic_per_token: Amount = 1.5
    min_comments: Share = 0.0
    max_comments: Share = 1.0
    min_lines: Count = 0
    max_lines: Count | None = None
    extensions: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.extensions, str):
            raise ConfigError(f"code_quality: extensions is a list: write extensions: [{self.extensions}].")
        check_fields(self, "code_quality")
        check_order(self, "code_quality", ("min_comments", "max_comments"), ("min_lines", "max_lines"))
        object.__setattr__(self, "extensions", tuple(one.lower().lstrip(".") for one in self.extensions))

    def judge(self, documents: Documents) -> Verdict:
        counts = statistics(documents)
        characters, lines = np.maximum(counts.characters, 1), np.maximum(counts.lines, 1)
        comments = counts.comment_characters / characters
        tokens = np.maximum(words(documents, "gristmill").counts, 1)
        tests = (
            (Limit("extension", most=0), self._foreign(documents)),
            (Limit("long_line", most=self.max_line), counts.longest_line.astype(np.float64)),
            (Limit("long_lines_on_average", most=self.max_mean_line), (counts.characters - counts.lines + 1) / lines),
            (Limit("few_alphanumeric", least=self.min_alphanumeric), counts.alphanumeric / characters),
            (Limit("few_letters_per_token", least=self.min_alphabetic_per_token), counts.alphabetic / tokens),
            (Limit("few_comments", least=self.min_comments), comments),
            (Limit("many_comments", most=self.max_comments), comments),
            (Limit("few_lines", least=self.min_lines), counts.lines.astype(np.float64)),
            (Limit("many_lines", most=self.max_lines), counts.lines.astype(np.float64)),
        )
        limits, figures = zip(*tests, strict=True)
        return first_broken(limits, figures)

    def _foreign(self, documents: Documents) -> Values:
        """1 where a document's path ends with none of the extensions, else 0."""
        if not self.extensions:
            return np.zeros(len(documents))
        suffixes = [PurePosixPath(path or "").suffix for path in documents.batch.column("path").to_pylist()]
        return np.array([suffix.lower().lstrip(".") not in self.extensions for suffix in suffixes], np.float64)
