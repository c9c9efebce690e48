"""JSON Lines: a document a line, an object with a text and perhaps an id. A byte order mark at the start is dropped.

Blocks are read at once. Where a line of one is not as it should be, Python's parser looks at each line of it: it takes
what the other is too strict for, and says what is wrong with the rest, and where.
"""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Ints
from gristmill.core.errors import SourceError
from gristmill.sources.base import Format, InputFile, Mishaps, Part, skippable
from gristmill.sources.batches import BYTE, document_batch, place_ids
from gristmill.sources.json_rows import Number, compact, parse_json, read_rows
from gristmill.sources.lines import LineTable, cut_bytes, open_text, tabulate, text_blocks, too_long, where

# What a document brings: its id, its text, the carried fields.
Values = list[str | None]

_HEAD_BYTES = 4096
_STRING = pa.string()


def read_jsonl(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """One document a line that is not blank; a line that is no such object is reported with its place."""
    return _read_blocks(text_blocks(part, format, part.stop), part, format, mishaps)


def cut_json(file: InputFile, format: Format, size: int, unit_bytes: int) -> list[Part]:
    """Stretches of lines; an array stays whole."""
    whole = Part(file, size=size)
    return [whole] if _is_array(whole, format) else cut_bytes(file, format, size, unit_bytes)


def read_json(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """A `.json` file: lines as in JSONL, or one array, an element a document."""
    if part.start or part.stop or not _is_array(part, format):
        return read_jsonl(part, format, mishaps)
    from gristmill.sources.json_arrays import ArrayLines

    lines = text_blocks(part, format, None, lambda stream: ArrayLines(stream, part.file.path))
    return _read_blocks(lines, part, format, mishaps)


def _is_array(part: Part, format: Format) -> bool:
    """Whether the first byte that is not blank opens an array."""
    with open_text(part, format) as stream:
        while head := stream.read(_HEAD_BYTES):
            if head := head.removeprefix(codecs.BOM_UTF8).lstrip():
                return head.startswith(b"[")
    return False


def _read_blocks(
    blocks: Iterator[tuple[int, memoryview | None]], part: Part, format: Format, mishaps: Mishaps
) -> Iterator[pa.RecordBatch]:
    number = 0
    for at, block in blocks:
        if block is None:
            mishaps.report(too_long(where(part, at, number + 1)), part.file, part.file.at(BYTE, at), at)
            number += 1
            continue
        if found := read_rows(block, (format.text, format.id, *format.fields)):
            texts, ids, *fields = found.columns
            yield _batch(part, format, at + found.begins, ids, texts, fields)
            number += found.lines
        else:
            table = tabulate(block)
            yield from _line_by_line(bytes(block), table, at, number, part, format, mishaps)
            number += len(table.begins)


def _line_by_line(
    block: bytes, table: LineTable, at: int, before: int, part: Part, format: Format, mishaps: Mishaps
) -> Iterator[pa.RecordBatch]:
    """The lines that Python's parser takes; the rest is reported. `before` lines came earlier."""
    taken: list[tuple[int, Values]] = []
    for i in np.flatnonzero(table.filled).tolist():
        place = at + int(table.begins[i])
        try:
            line = block[table.begins[i] : table.ends[i]]
            taken.append((place, parse_line(line, format, where(part, place, before + i + 1))))
        except SourceError as error:
            mishaps.report(error, part.file, part.file.at(BYTE, place), place)
    if taken:
        columns = zip(*(values for _, values in taken), strict=True)
        ids, texts, *fields = (pa.array(column, pa.large_string()) for column in columns)
        yield _batch(part, format, [place for place, _ in taken], ids, texts, fields)


def _batch(
    part: Part, format: Format, places: Sequence[int] | Ints, ids: pa.Array, texts: pa.Array, fields: list[pa.Array]
) -> pa.RecordBatch:
    """String columns as a batch; documents without an id are named by their byte."""
    given = _short(ids)
    names = pc.coalesce(given, place_ids(part.file, BYTE, places)) if given.null_count else given
    carried = {name: _short(field) for name, field in zip(format.fields, fields, strict=True)}
    return document_batch(part.file, places, texts, names, carried)


def _short(column: pa.Array) -> pa.Array:
    """A column of strings that are not large; Arrow's cast of one that is that already takes 30 microseconds."""
    return column if column.type == _STRING else column.cast(_STRING)


def parse_line(line: bytes, format: Format, where: str) -> Values:
    """Id, text and carried fields of one line, by Python's parser; a SourceError says what is wrong with it."""
    return parse_object(_parsed(line, where), format, where)


def parse_object(value: object, format: Format, where: str) -> Values:
    """Id, text and carried fields of a JSON value."""
    text = _string(_text(value, format.text, where), f"text of {where}")
    given = value_at(value, format.id)
    if isinstance(given, dict | list):
        raise skippable(f"{where} has an id under {format.id!r} that is neither text nor a number.")
    return [
        _spelt(given, f"id of {where}"),
        text,
        *(_spelt(value_at(value, name), f"field {name!r} of {where}") for name in format.fields),
    ]


def value_at(value: object, key: str) -> object:
    """The value under a key, or under a path of keys with dots between them; None if there is none."""
    if isinstance(value, dict) and key in value:
        return value[key]
    for step in key.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _spelt(value: object, what: str) -> str | None:
    """A value as text: strings and numbers as they are, all else as compact JSON; null is null."""
    if value is None:
        return None
    if isinstance(value, Number):
        return value.spelling
    if not isinstance(value, str):
        value = _compact(value, what)
    return _string(value, what)


def _compact(value: object, what: str) -> str:
    try:
        return compact(value)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a thousand brackets
        raise skippable(f"The {what} cannot be carried: {error}.") from error


def _parsed(line: bytes, where: str) -> object:
    try:
        codecs.utf_8_decode(line, "strict", True)  # json would take UTF-16
        return parse_json(line)
    except UnicodeDecodeError as error:
        raise skippable(f"{where} is not UTF-8: byte {error.start:,} of the line is invalid.") from error
    except (ValueError, RecursionError) as error:  # bad JSON, a thousand brackets
        raise skippable(f"{where} is not JSON: {error}.") from error


def _text(value: object, key: str, where: str) -> str:
    if not isinstance(value, dict):
        raise skippable(f"{where} is no JSON object with a text under {key!r} but {_kind(value)}.")
    text = value_at(value, key)
    if text is None and key not in value:
        raise SourceError(
            f"{where} has no text under {key!r} (it has {_some_keys(value)}).",
            'Name the key by text="KEY".',
            arguments="text",
        )
    if not isinstance(text, str):
        raise skippable(f"{where} has no text under {key!r} but {_shown(text)[:40]}.")
    return text


def _shown(value: object) -> str:
    try:
        return value.spelling if isinstance(value, Number) else compact(value)
    except (ValueError, RecursionError):
        return _kind(value)


def _kind(value: object) -> str:
    return "a number" if isinstance(value, Number) else type(value).__name__


def _some_keys(value: dict[str, object]) -> str:
    """A few of an object's keys, for a message."""
    shown = [repr(key[:40]) for key in itertools.islice(value, 10)] or ["no keys"]
    return ", ".join(shown) + (f" and {len(value) - 10:,} more" if len(value) > 10 else "")


def _string(text: str, what: str) -> str:
    """Refuse text that no UTF-8 can hold, which JSON's escapes can spell."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise skippable(
            f"The {what} holds half of a surrogate pair at character {error.start:,}: it is no valid text."
        ) from error
    return text
