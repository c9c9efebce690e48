"""Texts as two flat arrays, bytes and offsets: what Arrow's buffers are, and what compiled code takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints

if TYPE_CHECKING:
    import pyarrow as pa


def byte_letters() -> list[str]:
    """The printable letter that stands for each byte in the vocabularies of byte-level BPE."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def runs(offsets: Ints, most: int, most_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Rows from, to, so many at a time as take `most` bytes by their offsets; a longer one is a run by itself."""
    begin = 0
    while begin < len(offsets) - 1:
        end = max(int(np.searchsorted(offsets, offsets[begin] + most, "right")) - 1, begin + 1)
        end = min(end, begin + (most_rows or end))
        yield begin, end
        begin = end


@dataclass(eq=False)
class Texts:
    """Texts end to end: row i is data[offsets[i]:offsets[i + 1]], valid UTF-8."""

    data: npt.NDArray[np.uint8]
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def string(self, row: int) -> str:
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes().decode()

    def strings(self) -> Iterator[str]:
        """The texts one by one."""
        for begin, end in pairwise(self.offsets.tolist()):
            yield self.data[begin:end].tobytes().decode()

    def ordered(self, rows: Ints | None) -> Texts:
        """These rows, in this order; None for all as they are."""
        return self if rows is None else self.gather(rows)

    def gather(self, rows: Ints) -> Texts:
        """A copy of these rows."""
        from gristmill.core.kernels.texts import gather

        return Texts(*gather(self.data, self.offsets, rows))

    def put(self, rows: Ints, texts: Texts) -> Texts:
        """All rows, with `texts` for these, which rise; the same object where that changes nothing."""
        from gristmill.core.kernels.texts import put

        if not differing(self.gather(rows), texts).any():
            return self
        return Texts(*put(self.data, self.offsets, rows, texts.data, texts.offsets))


def arrow_texts(column: pa.Array) -> Texts:
    """The texts of an Arrow string column without nulls, as they lie in its buffers; slices keep their offsets."""
    _, offsets, data = column.buffers()
    width = np.dtype(np.int64 if str(column.type) == "large_string" else np.int32)
    begins = np.frombuffer(
        offsets or bytes(8), width, len(column) + 1, column.offset * width.itemsize if offsets else 0
    )
    return Texts(np.frombuffer(data or b"", np.uint8), begins.astype(np.int64, copy=False))


def from_strings(strings: Sequence[str]) -> Texts:
    """Python strings as a column."""
    encoded = [string.encode() for string in strings]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return Texts(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def differing(before: Texts, after: Texts) -> npt.NDArray[np.bool_]:
    """Which rows are not equal; none, at once, where both are the same object."""
    from gristmill.core.kernels.texts import differ

    found = np.zeros(len(before), np.bool_)
    if before is not after:
        differ(before.data, before.offsets, after.data, after.offsets, found)
    return found
