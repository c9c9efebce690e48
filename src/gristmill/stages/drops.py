"""What wide work decided about documents, as a table that the next job with their texts reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gristmill.curate.dedup.drops import UnitDrops
from gristmill.stages.relation import Relation


@dataclass(frozen=True)
class Drops:
    """The result of a wide rule: a table with `doc`, `kept` and perhaps `similarity`, sorted by `doc`."""

    rule: str
    reason: str
    table: Relation

    def of_unit(self, unit: int) -> UnitDrops:
        """Those of one unit, which fit in memory as the unit does."""
        table = self.table.rows_of(unit)
        numbers = [name for name in ("doc", "kept", "similarity") if name in table.column_names]
        columns = {name: table.column(name).to_numpy() for name in numbers}
        return UnitDrops(self.rule, self.reason, columns["doc"], columns["kept"], columns.get("similarity"))


def dropped_table(dropped: Sequence[Relation]) -> Mapping[str, Sequence[Relation]]:
    """The table of documents that are already gone, as queries know it, if there are any."""
    return {"dropped": dropped} if dropped else {}
