"""How documents of a block become rows where a row is documents: `pack` puts them side by side, `pad` has one a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gristmill.core.arrays import Ints, Mask
from gristmill.order.permute import permute


class Rows(NamedTuple):
    """Rows as pieces: row r holds pieces [edges[r], edges[r + 1]), piece i tokens [positions[i], + lengths[i]).

    follows[i]: the token after the piece is of the same document. truncated[i]: tokens of it that are left out.
    """

    edges: Ints
    positions: Ints
    lengths: Ints
    follows: Mask
    truncated: Ints

    def __len__(self) -> int:
        return len(self.edges) - 1

    def part(self, first: int, stop: int) -> tuple[Ints, Ints, Mask, Ints]:
        """Positions, lengths, follows and truncated of the pieces of rows [first, stop)."""
        own = slice(int(self.edges[first]), int(self.edges[stop]))
        return self.positions[own], self.lengths[own], self.follows[own], self.truncated[own]


# From the offsets of documents, a sequence length and the key of the rows' order (None: as they come).
Table = Callable[[Ints, int, int | None], Rows]


def padded(offsets: Ints, seq_len: int, key: int | None) -> Rows:
    """A document a row, cut off at `seq_len`; documents are shuffled already."""
    whole = np.diff(offsets)
    lengths = np.minimum(whole, seq_len)
    return Rows(np.arange(len(whole) + 1), offsets[:-1], lengths, whole > lengths, whole - lengths)


def packed(offsets: Ints, seq_len: int, key: int | None) -> Rows:
    """Windows of long documents, then the rest of each beside others, best-fit; shuffled by `key`."""
    from gristmill.order.pack import pack_range  # both import Numba
    from gristmill.streams.row_kernels import lay_rows

    whole = offsets[1:] - offsets[:-1]
    columns = [np.empty(len(whole), np.uint32) for _ in range(3)]
    full, remainders, bins = pack_range(whole, seq_len, *columns)
    _, order, starts = columns
    rows = np.arange(full + bins)
    if key is not None and len(rows) > 1:
        rows = permute(rows, len(rows), key)
    edges, (positions, lengths) = np.empty(len(rows) + 1, np.int64), np.empty((2, full + remainders), np.int64)
    follows = np.empty(full + remainders, np.bool_)
    lay_rows(offsets, seq_len, order[:remainders], starts[:bins], rows, edges, positions, lengths, follows)
    return Rows(edges, positions, lengths, follows, np.zeros(full + remainders, np.int64))
