"""What wide work decided about documents, as a file that the next job with their texts reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gristmill.curate.dedup.drops import UnitDrops
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
