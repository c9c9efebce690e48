"""A pass that signs documents for near dedup: WORK/sign/NUMBER.parquet with a key each band."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.core.options import content
from gristmill.curate.dedup.near import Near, sign, signature_schema
from gristmill.stages.drops import Drops
from gristmill.stages.tables import batches_of, docs_of_unit, table_writer, without
from gristmill.stages.work import Facts, UnitJob


@dataclass(frozen=True, kw_only=True)
class SignJob(UnitJob):
    """Signs the documents of a unit that no wide rule has dropped so far."""

    texts: Path
    upstream: str
    drops: tuple[Drops, ...]
    near: Near
    priorities: dict[str, int]

    @property
    def depends(self) -> Any:
        return [
            "sign",
            self.upstream,
            [drops.fingerprint for drops in self.drops],
            {**content(self.near), "index": None},
            self.priorities,
        ]

    def __call__(self) -> Facts:
        gone = docs_of_unit([drops.path for drops in self.drops], self.number)
        with table_writer(self.outputs[0], signature_schema(self.near)) as writer:
            for batch in batches_of(self.texts, ["doc", "id", "source", "text"]):
                writer.write_batch(sign(without(batch, gone), self.near, self.priorities))
        return {}
