"""Two passes around the query for repeated lines: hashing each line, and writing texts without those that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow.parquet as pq

from gristmill.core.options import content
from gristmill.curate.dedup.lines import Lines, by_hash, line_hashes, passes, removals_of, repeated_lines, trim
from gristmill.curate.ledger import Ledger
from gristmill.places.door import place_at
from gristmill.stages.relation import Drops, Relation, batches_of, document_schema, dropped_table, fitted, pass_writers
from gristmill.stages.work import Facts, Query, TextsJob, Workshop

# Files of hashes are sorted, so that row groups of this many lines let a pass read little but its own range.
_ROW_GROUP = 1 << 15


@dataclass(frozen=True, kw_only=True)
class LinesJob(TextsJob):
    """Writes WORK/lines/NUMBER.parquet: document, line and hash of each line that may be a repetition."""

    lines: Lines

    @property
    def depends(self) -> object:
        return ["lines", self.upstream, content(self.lines)]

    def __call__(self) -> Facts:
        batches = batches_of(self.texts, ["doc", "id", "text"])
        rows = by_hash(line_hashes(batch, self.lines) for batch in batches)
        with place_at(self.outputs[0]).writing() as file:
            pq.write_table(rows, file, row_group_size=_ROW_GROUP, compression="zstd", use_dictionary=False)
        return {"rows": len(rows)}


def find_repeated(work: Workshop, hashes: Relation, dropped: Sequence[Relation]) -> list[Relation]:
    """Tables (doc, line), each in this order, of the lines that equal an earlier one; `dropped` documents have none."""
    count = passes(hashes.rows)
    work.progress.start("repeated lines", count, "passes")
    found, tables = [], {"lines": [hashes], **dropped_table(dropped)}
    for i in range(count):
        found.append(work.ask(Query("repeated", repeated_lines(i, count, bool(dropped)), tables, i)))
        work.progress.advance(1)
    return found


@dataclass(frozen=True, kw_only=True)
class TrimJob(TextsJob):
    """Writes the texts of a unit anew, in WORK/trim, without the documents and lines that wide work has dropped."""

    suffixes: ClassVar[Sequence[str]] = (".parquet", ".dropped.parquet")
    drops: tuple[Drops, ...]
    repeated: tuple[Relation, ...]
    lines: Lines
    bit: int
    fields: tuple[str, ...]

    @property
    def depends(self) -> object:
        tables = [[drops.table.fingerprint for drops in self.drops], [table.fingerprint for table in self.repeated]]
        return ["trim", self.upstream, *tables, content(self.lines), self.bit]

    def __call__(self) -> Facts:
        ledger = Ledger()
        drops = [drops.of_unit(self.number) for drops in self.drops]
        removals = removals_of([table.rows_of(self.number) for table in self.repeated])
        with pass_writers(self.outputs, document_schema(self.fields)) as (kept, dropped):
            for batch in batches_of(self.texts):
                passed = trim(batch, drops, removals, self.lines, self.bit, ledger)
                kept.write_batch(fitted(passed.kept, kept.schema))
                for table in passed.dropped:
                    dropped.write_table(table)
        return ledger.facts
