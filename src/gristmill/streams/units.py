"""The files of a stream, cut into units small enough to begin with at once: 1 MiB, less for many rows or small inputs.

A tar is cut as seldom as rows allow: only a walk over its headers tells where its parts begin, and a lane goes on
inside of one by a seek, so that large units cost it nothing.

The cut depends on the files and the number of lanes alone. A unit is held as four numbers, and there are a million of
them at most, or as many as files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.hashing import fingerprint
from gristmill.places.address import Url
from gristmill.places.streams import REQUESTS
from gristmill.sources.base import Format, InputFile, Part, expand
from gristmill.sources.kinds import resumes_anywhere
from gristmill.sources.units import Unit, file_parts, file_sizes
from gristmill.store.folder import own_files
from gristmill.streams.turns import First, Place, Reader, Turn

# Every lane begins with a block of text: so many bytes in all, and in one (a third of what a block of 512 KiB takes is
# not for its bytes). So a first batch of 64 rows is there after 64 MiB.
_BEGIN, _BLOCK = 1 << 26, (1 << 18, 1 << 20)
# The least unit in bytes on disk; and a stream is cut into a million at most, so that those of a large one are larger.
LEAST, _COUNT = 1 << 12, 1 << 20
# Units that each lane should have at least, where files are large enough: else rows would repeat an epoch early.
_EACH = 4
# The most of a tar: places in a turn of 127 such units still have 32 bits.
MOST_SOUGHT = 1 << 34


class Cut(Protocol):
    """What a stream is cut into: units, which lanes read."""

    def __len__(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Names all that decides which documents are in which unit."""

    @property
    def waits(self) -> bool:
        """Whether to read one takes a while in which nothing is done, so that it is worth being begun before."""

    def reader(self, hold: int) -> Reader:
        """What reads them for the lanes of one loader, `hold` at a time."""


@dataclass(frozen=True)
class SourceFiles:
    """The files of one source and how they are read; without a name of its own it has that of its stream.

    Files of the store `out`, which may lie below a folder of inputs, are none of it.
    """

    paths: tuple[str, ...]
    format: Format
    name: str | None = None
    out: str | None = None

    def listed(self, stream: str) -> list[InputFile]:
        """The files that there are now, of a stream of this name."""
        files = expand(self.name or stream, self.paths)
        own = own_files(self.out, (file.path for file in files)) if self.out else set()
        return [file for file in files if file.path not in own]


class Units:
    """The units of files, read by the format of their source: unit i is a stretch of a file, or a whole one."""

    def __init__(self, files: Sequence[InputFile], formats: Mapping[str, Format], lanes: int) -> None:
        self.sizes, self.formats = file_sizes(files), formats
        # A file of no bytes may be one that cannot be looked at, which its reader tells.
        self.files = tuple(replace(file, size=size or None) for file, size in zip(files, self.sizes, strict=True))
        self.unit_bytes, self._share = unit_bytes(sum(self.sizes), lanes), share_bytes(sum(self.sizes), lanes)
        self.block_bytes = block_bytes(lanes)
        # Files on other machines do.
        self.waits = any(isinstance(file.path, Url) for file in files)
        # File, start, stop (-1: its end) and size of each unit.
        self._table = np.concatenate([np.empty((0, 4), np.int64), *self._rows_of_all()])

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, number: int) -> Unit:
        file, start, stop, size = self._table[number].tolist()
        return Unit(self.files[file].source, (Part(self.files[file], start, None if stop < 0 else stop, size),))

    def _rows_of_all(self) -> Iterator[Ints]:
        numbers = range(len(self.files))
        if not self.waits:
            yield from map(self._rows, numbers)
            return
        with ThreadPoolExecutor(REQUESTS, "gristmill-cut") as pool:  # which some formats are asked for
            yield from pool.map(self._rows, numbers)

    def _rows(self, file: int) -> Ints:
        parts = self._cut(file)
        return np.array([(file, part.start, -1 if part.stop is None else part.stop, part.size) for part in parts])

    def _cut(self, file: int) -> list[Part]:
        format = self.formats[self.files[file].source]
        if resumes_anywhere(self.files[file], format):
            return _stretches(self.files[file], self.sizes[file], min(self._share, MOST_SOUGHT))
        return file_parts(self.files[file], self.sizes[file], format, self.unit_bytes)

    def reader(self, hold: int) -> Reader:
        """Files are read when a lane comes to them."""
        return _FileReader(self, hold)

    @property
    def fingerprint(self) -> str:
        """Which files, of what size, cut how: names are below what the user named, so a moved folder is the same."""
        files = [[file.source, file.name, size] for file, size in zip(self.files, self.sizes, strict=True)]
        return fingerprint([self.unit_bytes, self.block_bytes, files])


@dataclass(frozen=True)
class _FileReader:
    units: Units
    hold: int

    def begin(self, first: Mapping[Place, First]) -> None:
        pass

    def close(self) -> None:
        pass

    def turn(self, place: Place, units: Sequence[int], after: Sequence[int]) -> Turn:
        return Turn([self.units[unit] for unit in units], self.units.formats, self.hold * self.units.block_bytes)


def _stretches(file: InputFile, size: int, each: int) -> list[Part]:
    """A file in parts of `each` bytes, the last one shorter."""
    edges = range(0, max(size, 1), each)
    return [Part(file, at, at + each if at + each < size else None, min(each, size - at)) for at in edges]


def unit_bytes(total: int, lanes: int) -> int:
    """A power of two: a block, less where lanes would have under 4 units, more where there would be over a million."""
    least, most = 1 << max(total // _COUNT, 1).bit_length(), block_bytes(lanes)
    return max(min(share_bytes(total, lanes), most), least if total > _COUNT * most else 0)


def block_bytes(lanes: int) -> int:
    """A power of two: the text that a lane reads at once, 1 MiB for up to 64 lanes, and down to 256 KiB for more."""
    least, most = _BLOCK
    return min(max(1 << (_BEGIN // lanes).bit_length() - 1, least), most)


def share_bytes(total: int, lanes: int) -> int:
    """A power of two: as much as leaves 4 units to each lane, 4 KiB at least."""
    return max(1 << max(total // (_EACH * lanes), 1).bit_length() - 1, LEAST)
