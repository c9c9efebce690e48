"""A pass that signs documents for near dedup: WORK/sign/NUMBER.parquet with a key each band."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.core.options import content
from gristmill.curate.dedup.near import Near, sign, signature_schema
from gristmill.curate.documents import Documents
from gristmill.stages.drops import Drops
from gristmill.stages.tables import batches_of, docs_of_unit, table_writer
from gristmill.stages.work import Facts


@dataclass(frozen=True)
class SignJob:
    """Signs the documents of a unit that no wide rule has dropped so far."""

    texts: Path
    upstream: str
    drops: tuple[Drops, ...]
    near: Near
    priorities: dict[str, int]
    number: int
    folder: Path
    size: int

    @property
    def marker(self) -> Path:
        return self.folder / f"{self.number:08x}.json"

    @property
    def outputs(self) -> list[Path]:
        return [self.marker.with_suffix(".parquet")]

    @property
    def depends(self) -> Any:
        return ["sign", self.upstream, [drops.fingerprint for drops in self.drops], content(self.near), self.priorities]

    def __call__(self) -> Facts:
        gone = docs_of_unit([drops.path for drops in self.drops], self.number)
        with table_writer(self.marker.with_suffix(".parquet"), signature_schema(self.near)) as writer:
            for batch in batches_of(self.texts, ["doc", "id", "source", "text"]):
                left = np.flatnonzero(~np.isin(batch.column("doc").to_numpy(), gone))
                writer.write_batch(sign(Documents(batch).take(left), self.near, self.priorities))
        return {}
