"""Documents out of tables: Parquet and Arrow batches to ours. A row's number in its file is its place.

A file's batch is checked in full before anything looks into its values, and is handed on in slices: a text that a
dictionary holds once, and a million rows name, would not fit in memory.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Mask
from gristmill.core.errors import SourceError, did_you_mean
from gristmill.core.texts import runs
from gristmill.sources import base
from gristmill.sources.base import Format, InputFile, Mishaps, Part, skippable
from gristmill.sources.batches import BATCH_BYTES, ROW, document_batch, place_ids
from gristmill.sources.cells import Cells, Sizes, is_text, spellable

# Where a column lies in a file: its name, and those of fields below it.
Path = tuple[str, ...]
# What a row costs beside its values.
_ROW_BYTES = 64
_MOST_NAMES = 20
# A longer id is in no sentence.
_MOST_ID_BYTES = 200
# What Arrow, and what reads before it, raise over bytes that are no table.
_DAMAGE = (pa.ArrowException, OSError, StopIteration, ValueError, ArithmeticError, RecursionError, struct.error)


def run_edges(sizes: Sequence[int], unit_bytes: int) -> list[int]:
    """Which pieces, of these sizes, begin a part: the first, and each after one that passes a multiple of a unit."""
    passed = np.diff(np.cumsum([0, *sizes]) // unit_bytes)
    return [edge for edge in (0, *(np.flatnonzero(passed) + 1).tolist()) if edge < len(sizes)]


@contextlib.contextmanager
def damage_named(file: InputFile, format: str) -> Iterator[None]:
    """Arrow's complaints about a file, as a SourceError that names it."""
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        why = str(error).split("\n")[0].rstrip(".")
        raise SourceError(
            f"{file.path} is damaged, encrypted or no {format} ({why}).", "Leave it out, or mend it."
        ) from error


def wanted(schema: pa.Schema, format: Format, part: Part) -> dict[str, Path]:
    """Where the columns to read lie; a table without the text, or with one of another type, is a SourceError."""
    found = {name: path for name in (format.text, format.id, *format.fields) if (path := _path(schema, name, part))}
    if format.text not in found:
        known = did_you_mean(format.text, schema.names[:_MOST_NAMES])
        raise SourceError(
            f"{part.file.path} has no column {format.text!r}{known}.",
            'Name it by text="COLUMN".',
            arguments="text",
        )
    for name, path in found.items():
        kind = _type_at(schema, path)
        if name == format.text and not is_text(kind):
            raise SourceError(f"{part.file.path} has {kind} in column {name!r}, which must be text.")
        if not spellable(kind):
            raise SourceError(f"{part.file.path} has {kind} in column {name!r}, which cannot be carried as text.")
    return found


def _path(schema: pa.Schema, name: str, part: Part) -> Path | None:
    """A column of this name or, for a name with dots, a field inside a column; None if there is neither."""
    for path in ((name,), tuple(name.split("."))):
        try:
            if _type_at(schema, path) is not None:
                return path
        except ValueError as error:
            raise SourceError(f"{part.file.path} has {error}.", "Rename all but one of them.") from error
    return None


def _type_at(schema: pa.Schema, path: Path) -> pa.DataType:
    """The type of what lies at a path, None if there is nothing; a ValueError if there are several such."""
    kind = pa.struct(list(schema))
    for step in path:
        places = kind.get_all_field_indices(step) if pa.types.is_struct(kind) else []
        if len(places) > 1:
            raise ValueError(f"{len(places)} columns called {step!r}")
        if not places:
            return None
        kind = kind.field(places[0]).type
    return kind


def table_documents(
    part: Part, format: Format, table: pa.RecordBatch, columns: Mapping[str, Path], first: int, mishaps: Mishaps
) -> Iterator[pa.RecordBatch]:
    """A batch of the file's table, whose first row is number `first`, as documents; rows without a text are mishaps."""
    checked = {name: _column(table, path) for name, path in columns.items()}
    sizes: Sizes = sum((cells.sizes() for cells in checked.values()), np.zeros(len(table), np.int64))
    for begin, end in runs(np.append(0, np.cumsum(sizes + _ROW_BYTES)), BATCH_BYTES):
        rows = np.arange(first + begin, first + end, dtype=np.int64)
        values = {name: cells.slice(begin, end) for name, cells in checked.items()}
        yield _Rows(part, format, rows, sizes[begin:end], values).documents(mishaps)


def _column(table: pa.RecordBatch, path: Path) -> Cells:
    """The column at a path, checked."""
    column = table.column(path[0])
    if len(path) == 1:
        return Cells.of(column)
    column.validate(full=True)
    return Cells.of(pc.struct_field(column, list(path[1:])))


@dataclass(frozen=True)
class _Rows:
    """Rows of a file with their numbers, their bytes, and the values of each column that is wanted and there."""

    part: Part
    format: Format
    rows: Sizes
    sizes: Sizes
    values: Mapping[str, Cells]

    def documents(self, mishaps: Mishaps) -> pa.RecordBatch:
        """The rows as documents; those that are none are mishaps."""
        short = self.sizes <= base.MAX_DOCUMENT_BYTES  # what is too long is not even decoded
        made = {name: cells.take(short).strings() for name, cells in self.values.items()}
        kept = self._good(short, made, mishaps)
        rows = self.rows[short][kept]
        given = {name: strings if kept.all() else strings.filter(pa.array(kept)) for name, (strings, _) in made.items()}
        ids = place_ids(self.part.file, ROW, rows)
        if self.format.id in given:
            ids = pc.coalesce(given[self.format.id].cast(pa.string()), ids)
        absent = pa.nulls(len(rows), pa.string())
        fields = {name: given[name].cast(pa.string()) if name in given else absent for name in self.format.fields}
        return document_batch(self.part.file, rows, _aligned(given[self.format.text]), ids, fields)

    def _good(self, short: Mask, made: Mapping[str, pa.Array], mishaps: Mishaps) -> Mask:
        """Which of the rows that are short enough are documents; all others are reported, in their order."""
        texts, _ = made[self.format.text]
        if short.all() and not texts.null_count and not any(bad.any() for _, bad in made.values()):
            return short
        why = np.full(len(self.rows), None, object)
        why[~short] = f"is longer than {base.MAX_DOCUMENT_BYTES >> 20:,} MiB"
        places = np.flatnonzero(short)
        why[places[texts.is_null().to_numpy(zero_copy_only=False)]] = f"has no text under {self.format.text!r} but null"
        for name, (_, bad) in made.items():
            why[places[bad]] = "is not UTF-8" if name == self.format.text else f"is not UTF-8 in {name!r}"
        bad = np.asarray(why != None)  # noqa: E711 - an array is compared
        for i, id in zip(np.flatnonzero(bad).tolist(), self._named(bad), strict=True):
            row, file = int(self.rows[i]), self.part.file
            said = skippable(f"{file.path}, row {row:,}{id} {why[i]}.")
            mishaps.report(said, file, file.at(ROW, row), row)
        return np.asarray(why[short] == None)  # noqa: E711

    def _named(self, chosen: Mask) -> list[str]:
        """The ids of rows as a sentence names them, where they have one that fits into it."""
        said = np.full(len(chosen), "", object)
        if cells := self.values.get(self.format.id):
            short = chosen & (cells.sizes() <= _MOST_ID_BYTES)
            ids = cells.take(short).strings()[0].to_pylist()
            said[short] = ["" if id is None else f" (id {id!r})" for id in ids]
        return [str(each) for each in said[chosen]]


def _aligned(texts: pa.Array) -> pa.Array:
    """Texts whose offsets lie where compiled code can read them, which those of a damaged file may not."""
    offsets = texts.buffers()[1]
    return texts if offsets is None or offsets.address % 8 == 0 else texts.take(pa.array(np.arange(len(texts))))
