"""Files cut into units of work, and a unit read. The cut depends on the files alone, never on how many workers run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from gristmill.core.arguments import PathLike
from gristmill.core.errors import SourceError
from gristmill.places.door import place_at, sizes
from gristmill.sources.base import Format, InputFile, Mishaps, Part, skippable
from gristmill.sources.batches import rebatch
from gristmill.sources.kinds import kind_of
from gristmill.sources.streams import packing_of

# A unit of a large source is the most, of a small one the least: 24 MB should keep several workers busy.
MOST_BYTES, LEAST_BYTES, UNIT_FILES = 64 << 20, 4 << 20, 65_536
# What a source of less than 1 GiB is cut into, about.
_FEW_UNITS = 16
# Ids that are remembered: about 100 MB at most. Beyond, only the comparison across units finds repeated ones.
_MOST_IDS = 1_000_000


@dataclass(frozen=True)
class Unit:
    """What one task reads: parts of one source, in order."""

    source: str
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes on disk, for progress."""
        return sum(part.size for part in self.parts)


def cut_units(files: Sequence[InputFile], formats: Mapping[str, Format], unit_bytes: int | None = None) -> list[Unit]:
    """Units of about `unit_bytes` on disk: small files of a source together, large ones in stretches where they allow.

    `formats` holds each source's. Units and their parts keep the order of the files. Without `unit_bytes` a source is
    cut by its own size: 16 units up to 1 GiB, of 4 MiB at least, and units of 64 MiB above.
    """
    units = []
    for source, group in itertools.groupby(files, key=lambda file: file.source):
        held = list(group)
        sized = list(zip(held, file_sizes(held), strict=True))
        each = unit_bytes or _unit_bytes(sum(size for _, size in sized))
        parts = (part for file, size in sized for part in file_parts(file, size, formats[source], each))
        units += [Unit(source, tuple(held)) for held in _grouped(parts, each)]
    return units


def file_sizes(files: Sequence[InputFile]) -> list[int]:
    """Bytes on disk; 0 for a file that cannot be looked at, which its reader tells then."""
    try:
        return list(sizes(os.fspath(file.path) for file in files))
    except OSError:
        return [0] if len(files) == 1 else [size for file in files for size in file_sizes([file])]


def _unit_bytes(source_bytes: int) -> int:
    """A power of two, so that a source that grows a little is cut at the same places."""
    return min(MOST_BYTES, max(LEAST_BYTES, 1 << (max(source_bytes - 1, 0) // _FEW_UNITS).bit_length()))


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


def file_parts(file: InputFile, size: int, format: Format, unit_bytes: int) -> list[Part]:
    """The file in stretches, or whole if it is small, does not allow it or cannot be opened: its reader tells then."""
    try:
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
    yield from rebatch(documents_of(unit, format, mishaps))


def documents_of(unit: Unit, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The same in batches as readers give them, for whoever cuts them anew."""
    seen: set[str] = set()
    for part in unit.parts:
        yield from _read(part, format, seen, mishaps)


def read_part(part: Part, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents of a part as its reader gives them: no more of the file has been read than they needed."""
    return _read(part, format, set(), mishaps)


def read_from(part: Part, at: int | None, format: Format, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents of a part that may be cut at any byte, from the one at byte `at` on if it is given.

    Their `row` is the byte at which they begin. Ids are not compared: it would take all that were before.
    """
    resume = kind_of(part.file, format).resume
    assert resume is not None
    return _told(part, lambda: resume(part, at, format, mishaps), mishaps)


def _read(part: Part, format: Format, seen: set[str], mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
    """The documents of a part. `seen` are the ids of the unit so far."""
    kind = kind_of(part.file, format)
    for batch in _told(part, lambda: kind.read(part, format, mishaps), mishaps, kind.needs_bytes):
        yield first_of_each(batch, seen, part.file, mishaps) if kind.brings_ids else batch


def _told(
    part: Part, read: Callable[[], Iterator[pa.RecordBatch]], mishaps: Mishaps, needs_bytes: bool = True
) -> Iterator[pa.RecordBatch]:
    """What is read of a part; what ends it early is one mishap."""
    try:
        if not part.start and not (size := part.file.place.size()):
            part.file.check(size)
            mishaps.empty.append(part.file.name)
            if needs_bytes or packing_of(part.file.path):
                return
        yield from read()
    except SourceError as error:
        mishaps.report(error, part.file)
    except OSError as error:
        why = "a link to nothing" if leads_nowhere(part.file.path) else error.strerror or error
        mishaps.report(SourceError(f"{part.file.path} cannot be read ({why})."), part.file)


def leads_nowhere(path: PathLike) -> bool:
    """Whether a file is a link to what is not there, as snapshots of the Hugging Face hub have once a blob is gone."""
    place = place_at(path)
    return place.is_link() and not place.exists()


def first_of_each(batch: pa.RecordBatch, seen: set[str], file: InputFile, mishaps: Mishaps) -> pa.RecordBatch:
    """The batch without documents whose id was seen before, each of which is a mishap: neither could be found by it."""
    ids = batch.column("id").to_pylist()
    fresh = set(ids)
    if len(fresh) < len(ids) or not seen.isdisjoint(fresh):
        batch = _without_repeated(batch, ids, seen, file, mishaps)
    if len(seen) < _MOST_IDS:
        seen |= fresh
    return batch


def _without_repeated(
    batch: pa.RecordBatch, ids: list[str], seen: set[str], file: InputFile, mishaps: Mishaps
) -> pa.RecordBatch:
    here: set[str] = set()
    kept = []
    for row, id in enumerate(ids):
        if id in seen or id in here:
            place = batch.column("row")[row].as_py()
            said = f"{file.name} (source {file.source!r}) has at {place:,} the id {id!r} of an earlier document."
            mishaps.report(skippable(said, "Give each its own, name another id field"), file, id, place)
        else:
            kept.append(row)
            here.add(id)
    return batch.take(pa.array(kept, pa.int64()))
