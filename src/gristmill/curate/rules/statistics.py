"""Counts of characters and lines, made in one pass over a batch and read by every rule that needs one."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.curate.characters import characters
from gristmill.curate.documents import Documents


@dataclass(frozen=True)
class Statistics:
    """Counts by document. A line ends at a line feed; a full line has a character that is no white space."""

    characters: Ints
    alphabetic: Ints
    alphanumeric: Ints
    lines: Ints
    full_lines: Ints
    # In characters, without the line feed.
    longest_line: Ints
    # Full lines that begin with a comment mark, or stand between /* and */ or two triple quotes.
    comment_characters: Ints

    def take(self, rows: Ints) -> Statistics:
        return Statistics(*(getattr(self, field.name)[rows] for field in fields(self)))


def statistics(documents: Documents) -> Statistics:
    """The counts of these documents, made once and shared."""
    return documents.shared("statistics", _count)


def _count(documents: Documents) -> Statistics:
    from gristmill.curate.rules import statistics_kernels as kernels

    counts = np.zeros((len(documents), len(fields(Statistics))), np.int64)
    kernels.count(documents.data, documents.offsets, characters(), counts)
    return Statistics(*np.ascontiguousarray(counts.T))
