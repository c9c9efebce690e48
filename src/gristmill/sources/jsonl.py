"""JSON Lines: a document a line, an object with a text and perhaps an id. A byte order mark at the start is dropped."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps, RawDocument

SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class JsonlFields:
    """Which keys of an object hold its text and its id; without an id it is named by file and line."""

    text: str = "text"
    id: str = "id"


def read_jsonl(file: InputFile, fields: JsonlFields, mishaps: Mishaps) -> Iterator[RawDocument]:
    """One document a line that is not blank; a line that is no such object is reported with its number."""
    try:
        with open(file.path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if line.strip():
                    try:
                        yield _document(file, number, line, fields)
                    except SourceError as error:
                        mishaps.report(error, file.source)
    except OSError as error:
        mishaps.report(SourceError(f"{file.path} cannot be read ({error.strerror})."), file.source)


def _document(file: InputFile, number: int, line: bytes, fields: JsonlFields) -> RawDocument:
    where = f"{file.path}, line {number:,}"
    value = _parsed(line, where)
    text = _string(_text(value, fields.text, where), f"text of {where}")
    given = value.get(fields.id)
    if given is None:
        return RawDocument(f"{file.source}/{file.name}:{number}", file.name, text)
    if isinstance(given, dict | list):
        raise SourceError(f"{where} has an id under {fields.id!r} that is neither text nor a number.")
    return RawDocument(_string(str(given), f"id of {where}"), file.name, text)


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
