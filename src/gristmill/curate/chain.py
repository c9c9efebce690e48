"""The chain: what every document goes through by itself, cleaning and then each rule, one Arrow batch after the other.

It knows no files, jobs or engines: passes over units use it, and so can whatever else holds documents.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill.core.errors import GristmillError
from gristmill.core.options import content
from gristmill.curate.base import KEEP, Rule, Verdict
from gristmill.curate.clean import CleanOptions, clean
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import READ, Ledger, Passed, add_counts, mark_edits, passed, start_documents, step_names
from gristmill.curate.rules import content as rule_content

CLEAN, EMPTY = "clean", "empty"


@dataclass(frozen=True)
class Curation:
    """Cleaning, then each rule, in this order."""

    clean: CleanOptions | None
    rules: tuple[Rule, ...]

    @property
    def content(self) -> dict[str, object]:
        """For fingerprints; the names of repeated rules too, which earlier accounts did not tell apart."""
        plain = [rule.name for rule in self.rules]
        return {
            "clean": content(self.clean) if self.clean else None,
            "rules": [rule_content(rule) for rule in self.rules],
            **({"names": self.names} if self.names != plain else {}),
        }

    @property
    def names(self) -> list[str]:
        """What the account calls each rule."""
        return step_names(rule.name for rule in self.rules)

    @property
    def steps(self) -> list[str]:
        """The names behind the bits of `edits`."""
        return [CLEAN, *self.names]

    def run(self, batch: pa.RecordBatch, first: int, ledger: Ledger) -> Passed:
        """A batch as it was read, its documents numbered from `first`, through all steps."""
        return passed(self.curate(start_documents(batch, first), ledger), ledger)

    def curate(self, documents: Documents, ledger: Ledger) -> Documents:
        """Documents cleaned, and those that no rule dropped; what happened to the others is in the ledger."""
        ledger.count(READ, documents)
        if self.clean:
            cleaned = clean(documents, self.clean)
            add_counts(ledger.edits, cleaned.counts)
            documents = mark_edits(documents, cleaned.documents, 0)
        ledger.count(CLEAN, documents)
        for bit, (name, rule) in enumerate(zip(self.names, self.rules, strict=True), 1):
            if len(documents):
                documents = ledger.settle(name, documents, rule.judge(documents), bit)
            else:
                ledger.count(name, documents)  # so that the account has all steps in their order
        empty = np.where(np.diff(documents.offsets) > 0, KEEP, 0).astype(np.int16)
        return ledger.settle(EMPTY, documents, Verdict((EMPTY,), empty))

    def warm(self) -> None:
        """Load what cleaning and the rules need (kernels, models, spaCy: seconds), by a document of no consequence.

        A user's own function is not called: it may count what it sees.
        """
        texts = pa.array(["A text of a few words."], pa.large_string())
        places = {name: pa.array(["-"]) for name in ("id", "source", "path")}
        documents = start_documents(pa.record_batch({**places, "row": pa.array([0]), "text": texts}), 0)
        if self.clean:
            clean(documents, self.clean)
        for rule in (rule for rule in self.rules if rule.name != "function"):
            with contextlib.suppress(GristmillError):  # the real documents will raise it where it can be seen
                rule.judge(documents)
