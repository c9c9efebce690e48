"""What the steps of a stream did: documents read, left and dropped by step and reason, and examples."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from gristmill.core.errors import SourceError
from gristmill.curate.ledger import add_counts
from gristmill.streams.blocks import Block
from gristmill.streams.unread import ALL_READ, shown_losses

_SHOWN = ("id", "source", "path", "rule", "reason", "value", "detail", "text")


class Account:
    """Adds up the ledgers of blocks; keeps the first `most` dropped documents of each rule and reason."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._after: dict[str, list[int]] = {}
        self._reasons: dict[str, dict[str, int]] = {}
        self._edits: dict[str, int] = {}
        self._unread = ALL_READ
        self._examples: dict[tuple[str, str], list[dict[str, object]]] = {}

    def add(self, block: Block) -> None:
        """Count what happened on the way to a block."""
        for step, counts in block.ledger.counts.items():
            row = self._after.setdefault(step, [0, 0])
            row[0], row[1] = row[0] + counts[0], row[1] + counts[1]
        for step, reasons in block.ledger.reasons.items():
            add_counts(self._reasons.setdefault(step, {}), reasons)
        add_counts(self._edits, block.ledger.edits)
        self._unread = self._unread.and_then(block.unread)
        if self._most:
            self._keep(block)

    def refuse_nothing(self, is_all: bool) -> None:
        """Tell of epochs that have ended without one document, where there was something to read: an error for
        `is_all` of a batch, a warning for a rank, since others may have rows.
        """
        lost = shown_losses({step: sum(each.values()) for step, each in self._reasons.items()}, self._unread)
        if not lost:
            return
        if is_all:
            raise SourceError(
                f"No document of the stream's files is left{lost}.", "Loosen the filters, or name files with text."
            )
        warnings.warn(f"This rank has no rows: no document of its files is left{lost}.", stacklevel=4)

    def _keep(self, block: Block) -> None:
        for table in block.ledger.take_dropped():
            for row in table.select(_SHOWN).to_pylist():
                kept = self._examples.setdefault((row["rule"], row["reason"]), [])
                if len(kept) < self._most:
                    kept.append(row)

    @property
    def examples(self) -> list[dict[str, object]]:
        """The documents that were kept."""
        return [row for rows in self._examples.values() for row in rows]

    @property
    def figures(self) -> Mapping[str, object]:
        """Documents and bytes after each step, documents by reason, documents edited, and what could not be read."""
        return {
            "after": {step: tuple(counts) for step, counts in self._after.items()},
            "dropped": {step: dict(reasons) for step, reasons in self._reasons.items() if reasons},
            "edited": dict(self._edits),
            "unreadable": self._unread.skipped,
            "unreadable_first": list(self._unread.named),
            "ignored_members": self._unread.ignored,
            "empty_files": self._unread.empty,
            "read_again": self._unread.again,
        }
