"""What wide work decided about some documents, applied to batches that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.curate.base import KEEP, Values, Verdict
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import Ledger, Passed


@dataclass(frozen=True)
class UnitDrops:
    """The documents of a unit that go, sorted, and what each goes in favour of."""

    rule: str
    reason: str
    docs: Ints
    kept: Ints | None = None
    similarity: Values | None = None

    def judge(self, documents: Documents) -> Verdict:
        """A verdict as a rule gives it, with the similarity as its value."""
        numbers = documents.batch.column("doc").to_numpy()
        place = np.searchsorted(self.docs, numbers)
        near = np.minimum(place, max(len(self.docs) - 1, 0))
        gone = self.docs[near] == numbers if len(self.docs) else np.zeros(len(numbers), bool)
        codes = np.where(gone, 0, KEEP).astype(np.int16)
        if not len(self.docs):
            return Verdict((self.reason,), codes)
        values = None if self.similarity is None else self.similarity[near]
        return Verdict((self.reason,), codes, values, kept_docs=None if self.kept is None else self.kept[near])


def drop(batch: pa.RecordBatch, drops: Sequence[UnitDrops], ledger: Ledger) -> Passed:
    """A batch without the documents that these name."""
    return Passed(apply_drops(Documents(batch), drops, ledger).batch, ledger.take_dropped())


def apply_drops(documents: Documents, drops: Sequence[UnitDrops], ledger: Ledger) -> Documents:
    """The documents that no wide rule dropped; the first rule that names a document is its reason."""
    for rule in drops:
        documents = ledger.settle(rule.rule, documents, rule.judge(documents))
    return documents


def alive(table: str, columns: str, dropped: bool) -> str:
    """A subquery: these columns of `table`, without the documents of a table `dropped`, where there is one."""
    gone = f" WHERE NOT EXISTS (SELECT 1 FROM dropped WHERE dropped.doc = {table}.doc)" if dropped else ""
    return f"(SELECT {columns} FROM {table}{gone})"
