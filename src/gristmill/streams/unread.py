"""What could not be read on the way, and how that, and what steps dropped, is told."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from gristmill.core.html import counted

_OWN_COLUMNS = ("id", "source", "path", "row", "text")
# Unreadable documents that are named; all are counted.
_NAMED = 5


class Unread(NamedTuple):
    """How many documents and files could not be read, the first of them named, and what held no documents.

    `again` are documents that were read a second time, to come to where a lane was.
    """

    skipped: int
    named: list[str]
    ignored: int
    empty: int
    again: int = 0

    def and_then(self, other: Unread) -> Unread:
        """Both; the first five are named."""
        if other is ALL_READ:
            return self
        skipped, named, *rest = map(operator.add, self, other)
        return Unread(skipped, named[:_NAMED], *rest)


# What nearly every block has to tell.
ALL_READ = Unread(0, [], 0, 0)


def shown_losses(dropped: Mapping[str, int], unread: Unread) -> str:
    """How many documents each step dropped, and what could not be read, in brackets; nothing where nothing was lost."""
    said = [f"{step} dropped {count:,}" for step, count in dropped.items() if count]
    if unread.empty:
        said.append(f"{counted(unread.empty, 'file')} of 0 bytes")
    if unread.skipped:
        said.append(f"{unread.skipped:,} could not be read, of which the first says: {unread.named[0].rstrip('.')}")
    return f" ({', '.join(said)})" if said else ""


def warn_of_fields(documents: pa.RecordBatch) -> None:
    """Say which of the fields that a source names none of these documents has: a misspelt one is null everywhere."""
    source = documents.column("source")[0]
    for name in documents.schema.names:
        if name not in _OWN_COLUMNS and documents.column(name).null_count == len(documents):
            warnings.warn(
                f"None of the first {len(documents):,} documents that were read of the source '{source}' has the field "
                f"{name!r}, which is None then: look whether fields= names it as the files do.",
                stacklevel=2,
            )
