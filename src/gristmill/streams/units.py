"""The files of a stream, cut into units small enough to begin with at once: about 512 KiB, less of small inputs.

The cut depends on the files and the number of lanes alone. Units are found by their number when they are read, so that
a stream of terabytes holds no more than a count a file.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gristmill.core.hashing import fingerprint
from gristmill.sources.base import Format, InputFile, Part
from gristmill.sources.units import Unit, file_parts, file_sizes

# Bytes on disk. A lane begins with a whole unit, so this decides how soon a first batch is there; and a stream is cut
# into a million units at most, so that larger ones have larger units.
_LEAST, _MOST, _COUNT = 1 << 12, 1 << 19, 1 << 20
# Units that each lane should have at least, where files are large enough: else rows would repeat an epoch early.
_EACH = 4


class Units:
    """The units of a source's files: unit i is a stretch of a file, or a whole one."""

    def __init__(self, files: Sequence[InputFile], format: Format, lanes: int) -> None:
        self.files, self._format = tuple(files), format
        self.sizes = file_sizes(self.files)
        self.unit_bytes = unit_bytes(sum(self.sizes), lanes)
        self._parts = functools.lru_cache(maxsize=64)(self._cut)
        self._ends = np.cumsum([len(self._parts(i)) for i in range(len(self.files))])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, number: int) -> Unit:
        file = int(np.searchsorted(self._ends, number, side="right"))
        parts = self._parts(file)
        return Unit(self.files[file].source, (parts[number - int(self._ends[file])],))

    def _cut(self, file: int) -> list[Part]:
        return file_parts(self.files[file], self.sizes[file], self._format, self.unit_bytes)

    @property
    def fingerprint(self) -> str:
        """Which files, of what size, cut how: names are below what the user named, so a moved folder is the same."""
        return fingerprint([[file.source, file.name, size] for file, size in zip(self.files, self.sizes, strict=True)])


def unit_bytes(total: int, lanes: int) -> int:
    """A power of two: 512 KiB, less where lanes would have under 4 units, more where there would be over a million."""
    wanted = 1 << max(total // (_EACH * lanes), 1).bit_length() - 1
    least = 1 << max(total // _COUNT, 1).bit_length()
    return max(min(max(wanted, _LEAST), _MOST), least if total > _COUNT * _MOST else 0)
