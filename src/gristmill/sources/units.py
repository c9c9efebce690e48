"""Files cut into units of work, and a unit read. The cut depends on the files alone, never on how many workers run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gristmill.core.errors import SourceError
from gristmill.sources.base import Format, InputFile, Mishaps, Part
from gristmill.sources.batches import rebatch
from gristmill.sources.ids import first_of_each
from gristmill.sources.kinds import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

UNIT_BYTES, UNIT_FILES = 64 << 20, 65_536


@dataclass(frozen=True)
class Unit:
    """What one task reads: parts of one source, in order."""

    source: str
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes on disk, for progress."""
        return sum(part.size for part in self.parts)


def cut_units(files: Sequence[InputFile], formats: Mapping[str, Format], unit_bytes: int = UNIT_BYTES) -> list[Unit]:
    """Units of about `unit_bytes` on disk: small files of a source together, large ones in stretches where they allow.

    `formats` holds each source's. Units and their parts keep the order of the files.
    """
    units = []
    for source, group in itertools.groupby(files, key=lambda file: file.source):
        parts = (part for file in group for part in _parts(file, formats[source], unit_bytes))
        units += [Unit(source, tuple(held)) for held in _grouped(parts, unit_bytes)]
    return units


def _grouped(parts: Iterator[Part], unit_bytes: int) -> Iterator[list[Part]]:
    held: list[Part] = []
    size = 0
    for part in parts:
        if held and (size + part.size > unit_bytes or len(held) == UNIT_FILES):
            yield held
            held, size = [], 0
        held.append(part)
        size += part.size
    if held:
        yield held


def _parts(file: InputFile, format: Format, unit_bytes: int) -> list[Part]:
    """The file in stretches, or whole if it is small, does not allow it or cannot be opened: its reader tells then."""
    try:
        size = os.stat(file.path).st_size
        if size > unit_bytes:
            return kind_of(file, format).cut(file, format, size, unit_bytes)
    except (OSError, SourceError):
        size = 0
    return [Part(file, size=size)]


def read_unit(unit: Unit, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents of a unit as batches of at most 8,192 documents and about 8 MiB of text.

    Columns: `id`, `source`, `path` (string), `row` (int64), `text` (large_string), then each of the format's fields
    (string; null where a document lacks it). Of equal ids inside a unit all but the first are mishaps.
    """
    seen: set[str] = set()
    return rebatch(batch for part in unit.parts for batch in _read(part, format, seen, mishaps))


def _read(part: Part, format: Format, seen: set[str], mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents of a part; what ends it early is one mishap. `seen` are the ids of the unit so far."""
    kind = kind_of(part.file, format)
    try:
        for batch in kind.read(part, format, mishaps):
            yield first_of_each(batch, seen, mishaps) if kind.brings_ids else batch
    except SourceError as error:
        mishaps.report(error, part.file.source)
    except OSError as error:
        why = error.strerror or error
        mishaps.report(SourceError(f"{part.file.path} cannot be read ({why})."), part.file.source)
