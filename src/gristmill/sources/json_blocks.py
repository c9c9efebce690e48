"""A block of JSON lines scanned by compiled code, its values as Arrow columns. Imports Numba: import it when needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Ints
from gristmill.sources.json_kernels import ABSENT, READ, UNREAD, count_breaks, gather_values, scan_lines
from gristmill.sources.lines import is_utf8

Codes = npt.NDArray[np.uint8]

# Words are written eight bytes at a time: the last one may reach beyond the values.
_SLACK = 8


@dataclass(frozen=True)
class ScannedBlock:
    """Where lines begin and what they are; where the wanted values of each lie and what they are."""

    block: bytes
    lines: Ints
    states: Codes
    begins: Ints
    ends: Ints
    kinds: Codes

    def __len__(self) -> int:
        return len(self.states)

    @property
    def read_lines(self) -> Ints:
        """Where the lines begin that were read."""
        return np.compress(self.states == READ, self.lines[:-1])

    def columns(self) -> Iterator[pa.Array]:
        """For each wanted key a large string column of the lines that were read; null where a line has no value."""
        rows = np.flatnonzero(self.states == READ)
        for key in range(self.kinds.shape[1]):
            yield self._column(self.begins[rows, key], self.ends[rows, key], self.kinds[rows, key])

    def _column(self, begins: Ints, ends: Ints, kinds: Codes) -> pa.Array:
        there = kinds != ABSENT
        out = np.empty(int((ends - begins)[there].sum()) + _SLACK, np.uint8)
        offsets = np.empty(len(begins) + 1, np.int64)
        gather_values(np.frombuffer(self.block, np.uint8), begins, ends, kinds, out, offsets)
        column = pa.LargeStringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(out))
        return column if there.all() else pc.if_else(pa.array(there), column, pa.scalar(None, pa.large_string()))

    def unread(self) -> Iterator[tuple[int, int, bytes]]:
        """Number in the block, first byte and bytes of each line that was not read and is not blank."""
        for i in np.flatnonzero(self.states == UNREAD).tolist():
            line = self.block[self.lines[i] : self.lines[i + 1] - 1]
            if not line.isspace():
                yield i, int(self.lines[i]), line


def scan_block(block: bytes, keys: Sequence[str]) -> ScannedBlock:
    """Scan whole lines for the values of keys, of which the first is the text's."""
    spelt = [key.encode() for key in keys]
    key_begins = np.cumsum([0, *map(len, spelt)], dtype=np.int64)
    data, names = (np.frombuffer(part, np.uint8) for part in (block, b"".join(spelt)))
    most = count_breaks(data) + 1
    shape = (most, len(keys))
    lines, states = np.empty(most + 1, np.int64), np.empty(most, np.uint8)
    begins, ends, kinds = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, ABSENT, np.uint8)
    count = scan_lines(data, names, key_begins, lines, states, begins, ends, kinds)
    scanned = ScannedBlock(block, lines[: count + 1], states[:count], begins[:count], ends[:count], kinds[:count])
    if not is_utf8(block):
        _leave_unread(scanned)
    if paths := [i for i, key in enumerate(keys) if "." in key]:  # the value may lie deeper
        scanned.states[(scanned.kinds[:, paths] == ABSENT).any(axis=1) & (scanned.states == READ)] = UNREAD
    return scanned


def _leave_unread(scanned: ScannedBlock) -> None:
    """Turn read lines that are not UTF-8 into unread ones."""
    for i in np.flatnonzero(scanned.states == READ):
        if not is_utf8(scanned.block[scanned.lines[i] : scanned.lines[i + 1]]):
            scanned.states[i] = UNREAD
