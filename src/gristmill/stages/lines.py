"""Two passes around the query for repeated lines: hashing each line, and writing texts without those that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from gristmill.core.options import content
from gristmill.curate.dedup.lines import Lines, line_hashes, removals_of, trim, write_line_hashes
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import Ledger
from gristmill.stages.drops import Drops
from gristmill.stages.tables import batches_of, document_schema, fitted, pass_writers
from gristmill.stages.work import Facts, UnitJob


@dataclass(frozen=True, kw_only=True)
class LinesJob(UnitJob):
    """Writes WORK/lines/NUMBER.parquet: document, line and hash of each line that may be a repetition."""

    texts: Path
    upstream: str
    lines: Lines

    @property
    def depends(self) -> Any:
        return ["lines", self.upstream, content(self.lines)]

    def __call__(self) -> Facts:
        batches = (Documents(batch) for batch in batches_of(self.texts, ["doc", "id", "text"]))
        write_line_hashes((line_hashes(documents, self.lines) for documents in batches), self.outputs[0])
        return {}


@dataclass(frozen=True, kw_only=True)
class TrimJob(UnitJob):
    """Writes the texts of a unit anew, in WORK/trim, without the documents and lines that wide work has dropped."""

    suffixes: ClassVar[Sequence[str]] = (".parquet", ".dropped.parquet")
    texts: Path
    upstream: str
    drops: tuple[Drops, ...]
    repeated: tuple[Path, ...]
    repeated_fingerprint: str
    lines: Lines
    bit: int
    fields: tuple[str, ...]

    @property
    def depends(self) -> Any:
        drops = [drops.fingerprint for drops in self.drops]
        return ["trim", self.upstream, drops, self.repeated_fingerprint, content(self.lines), self.bit]

    def __call__(self) -> Facts:
        ledger = Ledger()
        drops = [drops.of_unit(self.number) for drops in self.drops]
        removals = removals_of(self.number, self.repeated)
        with pass_writers(self.outputs, document_schema(self.fields)) as (kept, dropped):
            for batch in batches_of(self.texts):
                passed = trim(batch, drops, removals, self.lines, self.bit, ledger)
                kept.write_batch(fitted(passed.kept, kept.schema))
                for table in passed.dropped:
                    dropped.write_table(table)
        return ledger.facts
