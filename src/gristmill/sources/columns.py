"""Documents out of tables: Parquet and Arrow batches to ours. A row's number in its file is its place."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gristmill.core.errors import SourceError, did_you_mean
from gristmill.sources import base
from gristmill.sources.base import Format, InputFile, Mishaps, Part
from gristmill.sources.batches import ROW, document_batch, place_ids

if TYPE_CHECKING:
    import pyarrow as pa


def run_edges(sizes: Sequence[int], unit_bytes: int) -> list[int]:
    """Which pieces, of these sizes, begin a part: the first, and each after one that passes a multiple of a unit."""
    passed = np.diff(np.cumsum([0, *sizes]) // unit_bytes)
    return [edge for edge in (0, *(np.flatnonzero(passed) + 1).tolist()) if edge < len(sizes)]


@contextlib.contextmanager
def damage_named(file: InputFile, format: str) -> Iterator[None]:
    """Arrow's complaints about a file, as a SourceError that names it."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, StopIteration) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        why = str(error).split("\n")[0].rstrip(".")
        raise SourceError(
            f"{file.path} is damaged, encrypted or no {format} ({why}): leave it out, or mend it."
        ) from error


def wanted(schema: pa.Schema, format: Format, part: Part) -> list[str]:
    """The columns to read; a table without the text, or with one of another type, is a SourceError."""
    import pyarrow.types as types

    if format.text not in schema.names:
        known = did_you_mean(format.text, schema.names)
        raise SourceError(f"{part.file.path} has no column {format.text!r}{known}: name it with --text-field.")
    kind = schema.field(format.text).type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        raise SourceError(f"{part.file.path} has {kind} in column {format.text!r}, which must be text.")
    return [name for name in (format.text, format.id, *format.fields) if name in schema.names]


def table_documents(part: Part, format: Format, table: pa.RecordBatch, first: int, mishaps: Mishaps) -> pa.RecordBatch:
    """A batch of the file's table, whose first row is number `first`, as documents; rows without a text are mishaps."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table.validate()  # a damaged file must not send compiled code outside of its buffers
    texts = table.column(format.text).cast(pa.large_string())
    rows = np.arange(first, first + len(table), dtype=np.int64)
    good = _readable(texts, rows, part, format, mishaps)
    if not good.all():
        table, texts, rows = table.filter(pa.array(good)), texts.filter(pa.array(good)), rows[good]
    ids = place_ids(part.file, ROW, rows)
    if format.id in table.schema.names:
        ids = pc.coalesce(_as_strings(table.column(format.id)), ids)
    fields = {name: _field(table, name) for name in format.fields}
    return document_batch(part.file, rows, texts, ids, fields)


def _readable(texts: Any, rows: Any, part: Part, format: Format, mishaps: Mishaps) -> Any:
    """Which rows hold a text that is valid and short enough; the others are reported."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(texts).fill_null(-1).to_numpy(zero_copy_only=False)
    good = (lengths >= 0) & (lengths <= base.MAX_DOCUMENT_BYTES)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        texts.cast(pa.large_binary()).validate(full=True)
        good &= [text is None or _is_utf8(text) for text in texts.cast(pa.large_binary()).to_pylist()]
    for row in np.flatnonzero(~good):
        mishaps.report(_unreadable(int(lengths[row]), int(rows[row]), part, format), part.file.source)
    return good


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _unreadable(length: int, row: int, part: Part, format: Format) -> SourceError:
    place = f"{part.file.path}, row {row:,}"
    if length < 0:
        return SourceError(f"{place} has no text under {format.text!r} but null.")
    if length > base.MAX_DOCUMENT_BYTES:
        return SourceError(f"{place} is longer than {base.MAX_DOCUMENT_BYTES >> 20:,} MiB: split it.")
    return SourceError(f"{place} is not UTF-8. Mend it, or say --on-error skip.")


def _field(table: pa.RecordBatch, name: str) -> Any:
    import pyarrow as pa

    if name not in table.schema.names:
        return pa.nulls(len(table), pa.string())
    return _as_strings(table.column(name))


def _as_strings(column: Any) -> Any:
    """Strings as they are, numbers as Arrow spells them, nested values as compact JSON."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else _compact(value) for value in column.to_pylist()], pa.string())
    return column.cast(pa.string())


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
