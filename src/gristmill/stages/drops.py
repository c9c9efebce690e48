"""What wide work decided about a unit's documents, applied by the next job that holds their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gristmill.curate.base import KEEP, Values, Verdict
from gristmill.curate.documents import Documents, Ints
from gristmill.stages.curate import Ledger
from gristmill.stages.tables import rows_of_unit


@dataclass(frozen=True)
class Drops:
    """The result of a wide rule: a Parquet file with `doc`, `kept` and perhaps `similarity`, sorted by `doc`."""

    rule: str
    reason: str
    path: Path
    fingerprint: str

    @property
    def count(self) -> int:
        """Documents that go."""
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self.path).num_rows)

    def of_unit(self, unit: int) -> UnitDrops:
        """Those of one unit, which fit in memory as the unit does."""
        (table,) = rows_of_unit([self.path], unit, None)
        numbers = [name for name in ("doc", "kept", "similarity") if name in table.column_names]
        columns = {name: table.column(name).to_numpy() for name in numbers}
        return UnitDrops(self.rule, self.reason, columns["doc"], columns["kept"], columns.get("similarity"))


@dataclass(frozen=True)
class UnitDrops:
    """The documents of a unit that go, sorted, and what each goes in favour of."""

    rule: str
    reason: str
    docs: Ints
    kept: Ints
    similarity: Values | None

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
        return Verdict((self.reason,), codes, values, kept_docs=self.kept[near])


def apply_drops(documents: Documents, drops: Sequence[UnitDrops], ledger: Ledger) -> Documents:
    """The documents that no wide rule dropped; the first rule that names a document is its reason."""
    for rule in drops:
        rows = ledger.drop(rule.rule, documents, rule.judge(documents))
        documents = documents if rows is None else documents.take(rows)
        ledger.after(rule.rule, documents)
    return documents
