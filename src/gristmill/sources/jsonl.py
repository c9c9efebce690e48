"""JSON Lines: a document a line, an object with a text and perhaps an id. A byte order mark at the start is dropped.

A compiled parser reads whole blocks. A line that it does not take gets a second look by Python's own, which either
reads it after all or says what is wrong, and where.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gristmill.core.errors import SourceError
from gristmill.sources.base import Format, Mishaps, Part
from gristmill.sources.batches import BYTE, document_batch, place_ids
from gristmill.sources.lines import text_blocks, too_long, where

if TYPE_CHECKING:
    import pyarrow as pa

    from gristmill.sources.json_blocks import ScannedBlock

# What a document brings: its id, its text, the carried fields.
Values = list[str | None]


def read_jsonl(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """One document a line that is not blank; a line that is no such object is reported with its place."""
    from gristmill.sources.json_blocks import scan_block

    number = 0
    for at, block in text_blocks(part, format, part.stop):
        if block is None:
            mishaps.report(too_long(where(part, at, number + 1)), part.file.source)
            number += 1
            continue
        scanned = scan_block(block, (format.text, format.id, *format.fields))
        yield _in_order([
            _first_look(scanned, at, part, format),
            *_second_look(scanned, at, number, part, format, mishaps),
        ])  # fmt: skip
        number += len(scanned)


def _first_look(scanned: ScannedBlock, at: int, part: Part, format: Format) -> pa.RecordBatch:
    """The lines that the compiled parser has read."""
    texts, ids, *fields = scanned.columns()
    return _batch(part, format, at + scanned.read_lines, ids, texts, fields)


def _second_look(
    scanned: ScannedBlock, at: int, before: int, part: Part, format: Format, mishaps: Mishaps
) -> Iterator[pa.RecordBatch]:
    """Those of the other lines that Python's parser takes; the rest is reported. `before` lines came earlier."""
    import pyarrow as pa

    taken: list[tuple[int, Values]] = []
    for i, start, line in scanned.unread():
        try:
            taken.append((at + start, parse_line(line, format, where(part, at + start, before + i + 1))))
        except SourceError as error:
            mishaps.report(error, part.file.source)
    if taken:
        columns = zip(*(values for _, values in taken), strict=True)
        ids, texts, *fields = (pa.array(column, pa.large_string()) for column in columns)
        yield _batch(part, format, [row for row, _ in taken], ids, texts, fields)


def _batch(part: Part, format: Format, rows: Any, ids: Any, texts: Any, fields: list[Any]) -> pa.RecordBatch:
    """Large string columns as a batch; documents without an id are named by their byte."""
    import pyarrow as pa
    import pyarrow.compute as pc

    given = ids.cast(pa.string())
    names = pc.coalesce(given, place_ids(part.file, BYTE, rows)) if given.null_count else given
    carried = {name: field.cast(pa.string()) for name, field in zip(format.fields, fields, strict=True)}
    return document_batch(part.file, rows, texts, names, carried)


def _in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The batches' documents in the order of the file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(batches) == 1:
        return batches[0]
    joined = pa.concat_batches(batches)
    return joined.take(pc.sort_indices(joined.column("row")))


def parse_line(line: bytes, format: Format, where: str) -> Values:
    """Id, text and carried fields of one line, by Python's parser; a SourceError says what is wrong with it."""
    return parse_object(_parsed(line, where), format, where)


def parse_object(value: Any, format: Format, where: str) -> Values:
    """Id, text and carried fields of a JSON value."""
    text = _string(_text(value, format.text, where), f"text of {where}")
    given = value.get(format.id)
    if isinstance(given, dict | list):
        raise SourceError(f"{where} has an id under {format.id!r} that is neither text nor a number.")
    return [
        _spelt(given, f"id of {where}"),
        text,
        *(_spelt(value.get(name), f"field {name!r} of {where}") for name in format.fields),
    ]


def _spelt(value: Any, what: str) -> str | None:
    """A value as text: strings as they are, all else as compact JSON; null is null."""
    if value is None:
        return None
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _string(value, what)


def _parsed(line: bytes, where: str) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{where} is not UTF-8: byte {error.start:,} of the line is invalid. Mend it, or say --on-error skip."
        ) from error
    except (ValueError, RecursionError) as error:  # bad JSON, a number of thousands of digits, a thousand brackets
        raise SourceError(f"{where} is not JSON: {error}. Mend it, or say --on-error skip.") from error


def _text(value: Any, key: str, where: str) -> str:
    if not isinstance(value, dict):
        raise SourceError(f"{where} is no JSON object with a text under {key!r} but {type(value).__name__}.")
    if key not in value:
        keys = ", ".join(map(repr, value)) or "no keys"
        raise SourceError(f"{where} has no text under {key!r} (it has {keys}). Name the key with --text-field.")
    text = value[key]
    if not isinstance(text, str):
        raise SourceError(f"{where} has no text under {key!r} but {json.dumps(text)[:40]}.")
    return text


def _string(text: str, what: str) -> str:
    """Refuse text that no UTF-8 can hold, which JSON's escapes can spell."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SourceError(
            f"The {what} holds half of a surrogate pair at character {error.start:,}: it is no valid text."
        ) from error
    return text
