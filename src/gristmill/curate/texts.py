"""A column of texts outside of its batch: what steps that rewrite documents hand on to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gristmill.curate.documents import Bytes, Ints, Mask


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts end to end: row i is data[offsets[i]:offsets[i + 1]], valid UTF-8."""

    data: Bytes
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def string(self, row: int) -> str:
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes().decode()

    def gather(self, rows: Ints) -> Texts:
        """A copy of these rows."""
        from gristmill.curate.text_kernels import gather

        return Texts(*gather(self.data, self.offsets, rows))

    def put(self, rows: Ints, texts: Texts) -> Texts:
        """All rows, with `texts` for these, which rise; the same object where that changes nothing."""
        from gristmill.curate.text_kernels import put

        if not differing(self.gather(rows), texts).any():
            return self
        return Texts(*put(self.data, self.offsets, rows, texts.data, texts.offsets))


def from_strings(strings: Sequence[str]) -> Texts:
    """Python strings as a column."""
    encoded = [string.encode() for string in strings]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return Texts(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def differing(before: Texts, after: Texts) -> Mask:
    """Which rows are not equal; none, at once, where both are the same object."""
    from gristmill.curate.text_kernels import differ

    found = np.zeros(len(before), np.bool_)
    if before is not after:
        differ(before.data, before.offsets, after.data, after.offsets, found)
    return found
