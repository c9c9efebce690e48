"""Plain text: a document a file, UTF-8. A byte order mark at its start is no part of the text and is left out."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps, RawDocument


def read_text(file: InputFile, mishaps: Mishaps) -> Iterator[RawDocument]:
    """The file as one document, line ends as they are; its id is source and name."""
    try:
        yield RawDocument(f"{file.source}/{file.name}", file.name, _text(file))
    except SourceError as error:
        mishaps.report(error, file.source)


def _text(file: InputFile) -> str:
    try:
        data = file.path.read_bytes()
        mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
        return str(memoryview(data)[mark:], "utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{file.path} is not UTF-8: byte {error.start + mark:,} is invalid. Convert it, or say --on-error skip."
        ) from error
    except OSError as error:
        raise SourceError(f"{file.path} cannot be read ({error.strerror}).") from error
