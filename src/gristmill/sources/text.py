"""Plain text: a document a file, UTF-8."""

from __future__ import annotations

from collections.abc import Iterator

from gristmill.core.errors import SourceError
from gristmill.sources.base import InputFile, Mishaps, RawDocument


def read_text(file: InputFile, mishaps: Mishaps) -> Iterator[RawDocument]:
    """The file as one document; its id is source and name."""
    try:
        text = file.path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        mishaps.report(
            SourceError(
                f"{file.path} is not UTF-8: byte {error.start:,} is invalid. Convert it, or say --on-error skip."
            )
        )
        return
    except OSError as error:
        mishaps.report(SourceError(f"{file.path} cannot be read ({error.strerror})."))
        return
    yield RawDocument(f"{file.source}/{file.name}", file.name, text)
