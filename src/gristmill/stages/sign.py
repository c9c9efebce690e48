"""A pass that signs documents for near dedup: WORK/sign/NUMBER.parquet with a key each band."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gristmill.core.options import content
from gristmill.curate.dedup.near import Near, sign, signature_schema
from gristmill.stages.relation import Relation, docs_of_unit, first_doc
from gristmill.stages.tables import batches_of, table_writer, without
from gristmill.stages.work import Facts, UnitJob


@dataclass(frozen=True, kw_only=True)
class SignJob(UnitJob):
    """Signs the documents of a unit that no wide rule has dropped so far."""

    texts: Path
    upstream: str
    dropped: tuple[Relation, ...]
    near: Near
    priorities: dict[str, int]

    @property
    def depends(self) -> object:
        dropped = [table.fingerprint for table in self.dropped]
        return ["sign", self.upstream, dropped, {**content(self.near), "index": None}, self.priorities]

    def __call__(self) -> Facts:
        gone, rows, last = docs_of_unit(self.dropped, self.number), 0, -1
        with table_writer(self.outputs[0], signature_schema(self.near)) as writer:
            for batch in batches_of(self.texts, ["doc", "id", "source", "text"]):
                docs = batch.column("doc").to_numpy()
                signed = sign(without(batch, gone), self.near, self.priorities)
                writer.write_batch(signed)
                rows, last = rows + len(signed), int(docs[-1]) - first_doc(self.number) if len(docs) else last
        return {"rows": rows, "last": last}
