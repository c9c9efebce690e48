"""A turn: the units that a lane reads together, as blocks of documents; about 1 MiB of text each, times `hold`.

Blocks are named by their number. Where files can be read from any document on (tars), they are named by the place of
their first document, in steps of 512 bytes over the units of the turn: so a lane that resumes seeks, and reads nothing
twice.
"""

from __future__ import annotations

import bisect
import itertools
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
from gristmill.sources.units import Unit, read_from, read_part

# A lane, and which of its turns.
Place = tuple[int, int]


# What follows the last block of a turn.
END = -1


class Read(NamedTuple):
    """The documents of a block, its name, and that of the next one: END for none, None where nobody knows yet, or where
    none can be sought."""

    name: int
    documents: pa.RecordBatch
    after: int | None


class Blocks(Protocol):
    """A turn, whatever its documents are read from."""

    def blocks(self, name: int, mishaps: Mishaps) -> Iterator[Read]:
        """The blocks in their order: from that called `name` on, or all where none can be sought."""


class First(NamedTuple):
    """What a lane reads first: the units of a turn, from the block on that is called so."""

    units: Sequence[int]
    name: int


class Reader(Protocol):
    """Reads the turns of a loader's lanes; it may read ahead of them."""

    def begin(self, first: Mapping[Place, First]) -> None:
        """Hear where each lane begins."""

    def turn(self, place: Place, units: Sequence[int], after: Sequence[int]) -> Blocks:
        """The turn at a place; `after` are the units of the lane's next one."""

    def close(self) -> None:
        """Read no more."""


class _Named(NamedTuple):
    """Documents, and a name for a block that would begin with each of them, where one can be sought.

    Where something could not be read among them it would be told twice, if another were to go on between them.
    """

    documents: pa.RecordBatch
    names: Ints | None
    quiet: bool = True


class Turn:
    """The documents of some units, each read by the format of its source, by `size` bytes of text."""

    def __init__(self, units: Sequence[Unit], formats: Mapping[str, Format], size: int) -> None:
        self._units, self._formats, self._size = units, formats, size
        self._parts = [part for unit in units for part in unit.parts]
        self._seeks = all(resumes_anywhere(part.file, formats[part.file.source]) for part in self._parts)
        if self._seeks and self._begins[-1] >> 32:
            raise ConfigError("The units that a row holds together are over 2 TiB: choose a smaller hold.")

    @cached_property
    def _begins(self) -> list[int]:
        """The name of the first document of each part, and of what would follow the last."""
        return list(itertools.accumulate((-(-part.size // BLOCK) for part in self._parts), initial=0))

    def blocks(self, name: int, mishaps: Mishaps) -> Iterator[Read]:
        """The blocks in their order: from that called `name` on, or all where none can be sought."""
        if self._seeks:
            return _grouped(self._sought(name, mishaps), self._size)
        return numbered((batch for unit in self._units for batch in self._of_unit(unit, mishaps)), self._size)

    def _of_unit(self, unit: Unit, mishaps: Mishaps) -> Iterator[pa.RecordBatch]:
        """The documents of a unit; of a file that is cut at any byte those of the unit's stretch alone."""
        format = self._formats[unit.source]
        for part in unit.parts:
            if resumes_anywhere(part.file, format):
                yield from read_from(part, None, format, mishaps)
            else:
                yield from read_part(part, format, mishaps)

    def _sought(self, name: int, mishaps: Mishaps) -> Iterator[_Named]:
        """The documents from the one called `name` on."""
        first = bisect.bisect_right(self._begins, name, hi=len(self._parts)) - 1
        if name == self._begins[first]:
            first = bisect.bisect_left(self._begins, name)  # with the empty files before it
        at = self._parts[first].start + (name - self._begins[first]) * BLOCK
        yield from self._of_part(first, at if name > self._begins[first] else None, mishaps)
        for i in range(first + 1, len(self._parts)):
            yield from self._of_part(i, None, mishaps)

    def _of_part(self, number: int, at: int | None, mishaps: Mishaps) -> Iterator[_Named]:
        part = self._parts[number]
        before = mishaps.told
        for batch in read_from(part, at, self._formats[part.file.source], mishaps):
            rows = batch.column("row").to_numpy()
            yield _Named(batch, self._begins[number] + (rows - part.start) // BLOCK, mishaps.told == before)
            before = mishaps.told


def numbered(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[Read]:
    """The documents of batches as blocks of about `size` bytes of text, counted from 0."""
    blocks = _grouped((_Named(batch, None) for batch in batches), size)
    return (block._replace(name=number) for number, block in enumerate(blocks))


def _grouped(batches: Iterable[_Named], size: int) -> Iterator[Read]:
    """The documents of batches by `size` bytes of text, with the one that passes it; a short rest comes last.

    Documents of sources that carry other fields are never together.
    """
    held: list[_Named] = []
    count = 0
    for batch, names, quiet in batches:
        if held and held[0].documents.schema != batch.schema:
            yield _joined(held, None)
            held, count = [], 0
        begins = arrow_texts(batch.column("text")).offsets
        ends, at = begins[1:] - begins[0], 0
        if len(batch) and count + int(ends[-1]) < size:  # all of it, as mostly
            held.append(_Named(batch, names, quiet))
            count += int(ends[-1])
            continue
        while at < len(batch):
            before = int(ends[at - 1]) if at else 0
            stop = min(int(np.searchsorted(ends, before + size - count)) + 1, len(batch))
            held.append(_Named(batch.slice(at, stop - at), None if names is None else names[at:stop], quiet))
            count += int(ends[stop - 1]) - before
            at = stop
            if count >= size:
                yield _joined(held, None if names is None or at == len(batch) or not quiet else int(names[at]))
                held, count = [], 0
    if held:
        yield _joined(held, END)


def _joined(held: list[_Named], after: int | None) -> Read:
    names = held[0].names
    return Read(0 if names is None else int(names[0]), joined([each.documents for each in held]), after)
