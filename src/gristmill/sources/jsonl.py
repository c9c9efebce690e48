"""JSON Lines: a document a line, an object with a text and perhaps an id."""

from __future__ import annotations

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
                if line.strip():
                    try:
                        yield _document(file, number, line, fields)
                    except SourceError as error:
                        mishaps.report(error)
    except OSError as error:
        mishaps.report(SourceError(f"{file.path} cannot be read ({error.strerror})."))


def _document(file: InputFile, number: int, line: bytes, fields: JsonlFields) -> RawDocument:
    where = f"{file.path}, line {number:,}"
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SourceError(f"{where}: byte {error.start:,} of the line is not UTF-8.") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise SourceError(f"{where} is not JSON: {error}. Mend it, or say --on-error skip.") from error
    text = _text(value, fields.text, where)
    given = value.get(fields.id)
    name = f"{file.source}/{file.name}:{number}" if given is None else str(given)
    return RawDocument(name, file.name, text)


def _text(value: Any, key: str, where: str) -> str:
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        keys = ", ".join(map(str, value)) if isinstance(value, dict) else "no object"
        raise SourceError(f"{where} has no text under {key!r} (it has: {keys}). Name the key with --text-field.")
    text: str = value[key]
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SourceError(
            f"{where} holds half of a surrogate pair at character {error.start:,}: no valid text."
        ) from error
    return text
