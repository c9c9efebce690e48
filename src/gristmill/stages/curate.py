"""The first pass: a unit of raw files to cleaned documents, and the documents that rules dropped, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from gristmill.core.hashing import fingerprint
from gristmill.core.options import content
from gristmill.curate.chain import Curation
from gristmill.curate.ledger import Ledger, dropped_schema
from gristmill.places.door import place_at
from gristmill.sources.base import Format, Mishap, Mishaps, Part
from gristmill.sources.units import Unit, read_unit
from gristmill.stages.relation import document_schema, first_doc, fitted, pass_writers
from gristmill.stages.work import Facts, UnitJob

UNREADABLE = "unreadable"
_NO_DOC = -1


@dataclass(frozen=True, kw_only=True)
class CurateJob(UnitJob):
    """Reads a unit, cleans and judges it, and writes WORK/curate/NUMBER.parquet and NUMBER.dropped.parquet."""

    suffixes: ClassVar[Sequence[str]] = (".parquet", ".dropped.parquet")
    unit: Unit
    inputs: str
    format: Format
    on_error: str
    fields: tuple[str, ...]
    keep_key: int
    curation: Curation

    @property
    def depends(self) -> object:
        return [
            "curate-3",  # a new number where the same inputs are read otherwise than before
            self.inputs,
            content(self.format),
            self.fields,
            self.keep_key,
            self.number,
            {**self.curation.content, "on_error": self.on_error},
        ]

    def __call__(self) -> Facts:
        ledger, at = Ledger(), first_doc(self.number)
        carried = Counter(dict.fromkeys(self.format.fields, 0))
        with pass_writers(self.outputs, document_schema(self.fields)) as (kept, dropped):
            mishaps = Mishaps(self.on_error, lambda found: dropped.write_table(unreadable_rows(found)))
            for batch in read_unit(self.unit, self.format, mishaps):
                passed = self.curation.run(batch, at, ledger)
                at += len(batch)
                carried.update({name: len(batch) - batch.column(name).null_count for name in self.format.fields})
                keys = pa.array(np.full(len(passed.kept), self.keep_key))
                kept.write_batch(fitted(passed.kept.append_column("keep_key", keys), kept.schema))
                for table in passed.dropped:
                    dropped.write_table(table)
            return {**ledger.facts, **mishaps.finish(), "carried": carried}


def inputs_fingerprint(unit: Unit) -> str:
    """The files of a unit as they are now: names, sizes, times of change, and the stretches that are read."""
    parts = [[part.file.name, *_stamp(part), part.start, part.stop] for part in unit.parts]
    return fingerprint([unit.source, parts])


def _stamp(part: Part) -> tuple[int, ...]:
    """A file's size and time of change; none of one that cannot be looked at, which its reader tells."""
    try:
        return place_at(part.file.path).stamp()
    except OSError:
        return ()


def unreadable_rows(mishaps: Sequence[Mishap]) -> pa.Table:
    """Documents and files that could not be read, as rows of the account: they have no number and no text."""
    rows = [{"doc": _NO_DOC, "id": mishap.id, "source": mishap.file.source, "path": mishap.file.name,
             "row": mishap.place, "rule": UNREADABLE, "reason": UNREADABLE, "detail": mishap.what}
            for mishap in mishaps]  # fmt: skip
    return pa.Table.from_pylist(rows, dropped_schema())
