"""Samples of a tar that are found many at once, by a compiled walk over the headers that are in memory."""

from __future__ import annotations

import codecs
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.texts import Texts, from_strings
from gristmill.sources import base
from gristmill.sources.tar import BLOCK, TarReader

# What a table tells of a sample: where it begins, its key, text and JSON (-1: none), and how many members are neither.
AT, KEY, TEXT, JSON, IGNORED, COLUMNS = 0, 1, 3, 5, 7, 8
_MARK = len(codecs.BOM_UTF8)


class Sample(NamedTuple):
    """The members of a key that may hold text, by what follows the first dot of their names.

    None is one that is sparse or too long; `twice` names one that came again, `instead` one that is no file and what it
    is. One that is `cut` may lack members: the tar breaks off, or is damaged, before the next sample.
    """

    number: int
    at: int
    key: str
    members: dict[str, bytes | None]
    twice: str | None = None
    instead: tuple[str, str] | None = None
    cut: bool = False


@dataclass(frozen=True, eq=False)
class Run:
    """Neighbouring samples, the first with this number, each with a text, or JSON, or both: rows of a table.

    The table counts bytes from the tar's byte `begin` on, where `data` begins.
    """

    number: int
    begin: int
    suffixes: Sequence[str]
    data: Bytes
    table: Ints

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Sample]:
        """One by one, as whoever reads a tar a member at a time finds them."""
        view = self.data.data
        for i, row in enumerate(self.table.tolist()):
            places = {self.suffixes[0]: TEXT, self.suffixes[-1]: JSON}
            members: dict[str, bytes | None] = {
                name: bytes(view[row[p] : row[p + 1]]) for name, p in places.items() if row[p] >= 0
            }
            key = bytes(view[row[KEY] : row[KEY + 1]]).decode()
            yield Sample(self.number + i, self.begin + row[AT], key, members)

    @property
    def starts(self) -> Ints:
        """The byte of the tar at which each sample begins."""
        return self.begin + self.table[:, AT]

    @property
    def ignored(self) -> int:
        """How many members are neither text nor JSON."""
        return int(self.table[:, IGNORED].sum())

    def texts(self) -> pa.Array | None:
        """The texts as a column, without byte order marks; None where a sample has JSON, or text that is no UTF-8."""
        if (self.table[:, JSON] >= 0).any():
            return None
        begins, ends = self.table[:, TEXT], self.table[:, TEXT + 1]
        if (self.data[begins] == codecs.BOM_UTF8[0]).any():
            marked = np.logical_and.reduce([self.data[begins + i] == byte for i, byte in enumerate(codecs.BOM_UTF8)])
            begins = begins + _MARK * (marked & (ends - begins >= _MARK))
        found = self._cut_out(begins, ends)
        bounds, data = pa.py_buffer(found.offsets), pa.py_buffer(found.data)
        column = pa.LargeStringArray.from_buffers(len(self), bounds, data)
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return None
        return column

    def ids(self, prefix: str) -> pa.Array:
        """Keys behind what all of them share; Arrow's own functions took as long as the texts did."""
        keys = self._cut_out(self.table[:, KEY], self.table[:, KEY + 1], prefix.encode())
        bounds = pa.py_buffer(keys.offsets.astype(np.int32))
        return pa.StringArray.from_buffers(len(self), bounds, pa.py_buffer(keys.data))

    def _cut_out(self, begins: Ints, ends: Ints, prefix: bytes = b"") -> Texts:
        """A copy of these stretches of the tar, each behind a prefix."""
        from gristmill.sources.tar_kernels import cut_out  # which imports Numba

        size = int((ends - begins).sum()) + len(begins) * len(prefix)
        out, bounds = np.empty(size, np.uint8), np.empty(len(begins) + 1, np.int64)
        cut_out(self.data, begins, ends, np.frombuffer(prefix, np.uint8), out, bounds)
        return Texts(out, bounds)


@functools.lru_cache(maxsize=16)
def _spelt(suffixes: tuple[str, ...]) -> Texts:
    return from_strings([base.portable(suffix) for suffix in suffixes])


def run_ahead(tar: TarReader, number: int, suffixes: tuple[str, ...], stop: int) -> Run:
    """The plain samples from where a tar is read on, as far as its bytes are held and before byte `stop`.

    The last of `suffixes` is that of JSON, the others are those of texts; without any, all samples are wanted. The tar
    is read on from the first sample that is not in the run.
    """
    from gristmill.sources.tar_kernels import walk  # which imports Numba

    data = np.frombuffer(tar.ahead(), np.uint8)
    names, table, begin = _spelt(suffixes), np.empty((len(data) // BLOCK + 2, COLUMNS), np.int64), tar.at
    count = walk(data, names.data, names.offsets, table) if len(data) <= base.MAX_DOCUMENT_BYTES else 0
    count = int(np.searchsorted(table[:count, AT], stop - begin))
    if count:
        tar.go_to(begin + int(table[count, AT]))
    return Run(number, begin, suffixes, data, table[:count])
