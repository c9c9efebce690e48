"""A turn: the units that a lane reads together, as blocks of documents; about 1 MiB of text each, times `hold`.

Blocks are named by their number. Where files can be read from any document on (tars), they are named by the place of
their first document, in steps of 512 bytes over the units of the turn: so a lane that resumes seeks, and reads nothing
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError
from gristmill.core.texts import arrow_texts
from gristmill.sources.base import Format, Mishaps
from gristmill.sources.batches import joined
from gristmill.sources.kinds import resumes_anywhere
from gristmill.sources.tar import BLOCK
from gristmill.sources.units import Unit, documents_of, read_from

# A lane, and which of its turns.
Place = tuple[int, int]


class Blocks(Protocol):
    """A turn, whatever its documents are read from."""

    def blocks(self, name: int, mishaps: Mishaps) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The blocks in their order, with their names: from that called `name` on, or all where none can be sought."""


class Reader(Protocol):
    """Reads the turns of a loader's lanes; it may read ahead of them."""

    def begin(self, first: Mapping[Place, Sequence[int]]) -> None:
        """Hear where each lane begins, and the units of that turn."""

    def turn(self, place: Place, units: Sequence[int], after: Sequence[int]) -> Blocks:
        """The turn at a place; `after` are the units of the lane's next one."""


class _Named(NamedTuple):
    """Documents, and a name for a block that would begin with each of them."""

    documents: pa.RecordBatch
    names: Ints


class Turn:
    """The documents of some units, each read by the format of its source, by `size` bytes of text."""

    def __init__(self, units: Sequence[Unit], formats: Mapping[str, Format], size: int) -> None:
        self._units, self._formats, self._size = units, formats, size
        self._parts = [part for unit in units for part in unit.parts]
        self._seeks = all(resumes_anywhere(part.file, formats[part.file.source]) for part in self._parts)
        if self._seeks and self._begins[-1] >> 32:
            raise ConfigError("The units that a row holds together are over 2 TiB: choose a smaller hold.")

    @cached_property
    def _begins(self) -> Ints:
        """The name of the first document of each part, and of what would follow the last."""
        return np.cumsum([0, *(-(-part.size // BLOCK) for part in self._parts)], dtype=np.int64)

    def blocks(self, name: int, mishaps: Mishaps) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The blocks in their order, with their names: from that called `name` on, or all where none can be sought."""
        if self._seeks:
            return (
                (int(names[0]), documents) for documents, names in _grouped(self._sought(name, mishaps), self._size)
            )
        batches = (batch for unit in self._units for batch in documents_of(unit, self._formats[unit.source], mishaps))
        return numbered(batches, self._size)

    def _sought(self, name: int, mishaps: Mishaps) -> Iterator[_Named]:
        """The documents from the one called `name` on."""
        first = int(np.searchsorted(self._begins[:-1], name, side="right")) - 1
        at = self._parts[first].start + (name - int(self._begins[first])) * BLOCK
        yield from self._of_part(first, at if name > self._begins[first] else None, mishaps)
        for i in range(first + 1, len(self._parts)):
            yield from self._of_part(i, None, mishaps)

    def _of_part(self, number: int, at: int | None, mishaps: Mishaps) -> Iterator[_Named]:
        part = self._parts[number]
        for batch in read_from(part, at, self._formats[part.file.source], mishaps):
            rows = batch.column("row").to_numpy()
            yield _Named(batch, self._begins[number] + (rows - part.start) // BLOCK)


def numbered(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The documents of batches as blocks of about `size` bytes of text, counted from 0."""
    unnamed = (_Named(batch, np.zeros(len(batch), np.int64)) for batch in batches)
    return enumerate(block.documents for block in _grouped(unnamed, size))


def _grouped(batches: Iterable[_Named], size: int) -> Iterator[_Named]:
    """The documents of batches by `size` bytes of text, with the one that passes it; a short rest comes last.

    Documents of sources that carry other fields are never together.
    """
    held: list[_Named] = []
    count = 0
    for batch, names in batches:
        if held and held[0].documents.schema != batch.schema:
            yield _joined(held)
            held, count = [], 0
        begins = arrow_texts(batch.column("text")).offsets
        ends, at = begins[1:] - begins[0], 0
        if len(batch) and count + int(ends[-1]) < size:  # all of it, as mostly
            held.append(_Named(batch, names))
            count += int(ends[-1])
            continue
        while at < len(batch):
            before = int(ends[at - 1]) if at else 0
            stop = min(int(np.searchsorted(ends, before + size - count)) + 1, len(batch))
            held.append(_Named(batch.slice(at, stop - at), names[at:stop]))
            count += int(ends[stop - 1]) - before
            at = stop
            if count >= size:
                yield _joined(held)
                held, count = [], 0
    if held:
        yield _joined(held)


def _joined(held: list[_Named]) -> _Named:
    return _Named(joined([each.documents for each in held]), held[0].names)
