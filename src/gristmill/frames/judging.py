"""Rows of a DataFrame judged by the rules of a recipe, on whatever worker holds them: each stays, with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.texts import runs
from gristmill.curate.chain import Curation
from gristmill.curate.ledger import Ledger, start_documents
from gristmill.frames.recipe import FrameRecipe
from gristmill.sources.base import Format, InputFile, Mishap, Mishaps, Part
from gristmill.sources.batches import BATCH_BYTES
from gristmill.sources.columns import table_documents
from gristmill.stages.curate import UNREADABLE

_ROW_BYTES = 64
_NAME = "DataFrame"
# What is said of a row beside its own columns: nothing of one that is kept.
VERDICT = (("rule", pa.string()), ("reason", pa.string()), ("value", pa.float64()), ("detail", pa.string()))
_FOUND = pa.schema([("row", pa.int64()), ("text", pa.large_string()), *VERDICT])


@dataclass(frozen=True)
class Judge:
    """Batches of rows to the same rows, texts cleaned, with `rule`, `reason`, `value` and `detail` beside them."""

    curation: Curation
    format: Format
    source: str
    id_col: str | None
    on_error: str

    @staticmethod
    def of(made: FrameRecipe) -> Judge:
        """The rules of a recipe."""
        recipe = made.recipe
        curation = Curation(recipe.clean, tuple(recipe.filters))
        return Judge(curation, made.source.layout, made.source.name, made.id_col, recipe.on_error)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every row once, in batches of about 8 MiB of text; a longer text is a batch by itself."""
        for batch in batches:
            sizes = pc.binary_length(batch.column(self.format.text)).fill_null(0).to_numpy().astype(np.int64)
            for begin, end in runs(np.append(0, np.cumsum(sizes + _ROW_BYTES)), BATCH_BYTES):
                yield self._judged(batch.slice(begin, end - begin))

    def _judged(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        found = pa.concat_tables(self._found(rows)).sort_by("row").combine_chunks()
        place = rows.schema.get_field_index(self.format.text)
        text = found.column("text").cast(rows.column(place).type).combine_chunks()
        judged = rows.set_column(place, rows.schema.field(place), text)
        for name, _ in VERDICT:
            judged = judged.append_column(name, found.column(name).combine_chunks())
        return judged

    def _found(self, rows: pa.RecordBatch) -> list[pa.Table]:
        """What became of each row, in no order."""
        names = (self.format.text, *((self.id_col,) if self.id_col else ()), *self.format.fields)
        unread: list[Mishap] = []
        part, mishaps = Part(InputFile(self.source, Path(_NAME), _NAME)), Mishaps(self.on_error, unread.extend)
        columns = {name: (name,) for name in names}
        read = table_documents(part, self.format, rows, columns, 0, mishaps)
        found = [table for documents in read for table in self._passed(documents)]
        mishaps.flush()
        return [*found, _unreadable(unread, rows.column(self.format.text))]

    def _passed(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        ledger = Ledger()
        kept = self.curation.curate(start_documents(batch, 0), ledger).batch
        yield _table({"row": kept.column("row"), "text": kept.column("text")}, len(kept))
        for dropped in ledger.take_dropped():
            yield dropped.select(_FOUND.names)


def _unreadable(found: Sequence[Mishap], texts: pa.Array) -> pa.Table:
    """Rows that could not be read, with their texts as they came."""
    places = pa.array([mishap.place for mishap in found], pa.int64())
    said = {"row": places, "text": texts.take(places).cast(pa.large_string()),
            **dict.fromkeys(("rule", "reason"), pa.array([UNREADABLE] * len(found), pa.string())),
            "detail": pa.array([mishap.what for mishap in found], pa.string())}  # fmt: skip
    return _table(said, len(found))


def _table(columns: dict[str, pa.Array], rows: int) -> pa.Table:
    """A table of what is known, and of nulls."""
    return pa.table([columns.get(name.name, pa.nulls(rows, name.type)) for name in _FOUND], schema=_FOUND)
