"""What a rule is: options as a frozen dataclass, and a judgement on each document of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints, Mask
from gristmill.curate.documents import Documents

Codes = npt.NDArray[np.int16]
Values = npt.NDArray[np.float64]

KEEP = -1


@dataclass(frozen=True)
class Verdict:
    """What a rule says of each document: KEEP (-1), or the position in `reasons` of why it goes."""

    reasons: Sequence[str]
    codes: Codes
    # The measured figure that decided, NaN where there is none: 37 (words), 0.31 (a share).
    values: Values | None = None
    # What was found, by row, where a figure does not say it: a word, a line, an item of an evaluation.
    details: Mapping[int, str] = field(default_factory=dict)
    # The document in whose favour each goes, where the rule compares documents.
    kept_docs: Ints | None = None
    # The texts after the rule, where it edits them; rows that it drops may hold anything.
    documents: Documents | None = None

    @property
    def kept(self) -> Mask:
        return np.asarray(self.codes == KEEP)


class Rule(Protocol):
    """A rule of a recipe. It is pickled to workers, so tables and models are loaded lazily, once a process."""

    name: ClassVar[str]

    def judge(self, documents: Documents) -> Verdict:
        """Judge each document by itself: the answer may not depend on the others in its batch."""
