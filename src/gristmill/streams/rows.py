"""How documents of a block become rows where a row is documents: `pack` puts them side by side, `pad` has one a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gristmill.core.arrays import Ints, Mask
from gristmill.order.cut import window_spans
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

    def part(self, first: int, stop: int) -> Rows:
        """Rows [first, stop)."""
        edges = self.edges[first : stop + 1]
        return self._of(edges - edges[0], slice(int(edges[0]), int(edges[-1])))

    def take(self, rows: Ints) -> Rows:
        """These rows, in this order."""
        counts = np.diff(self.edges)[rows]
        edges = np.append(0, np.cumsum(counts))
        pieces = np.arange(edges[-1]) + np.repeat(self.edges[rows] - edges[:-1], counts)
        return self._of(edges, pieces)

    def _of(self, edges: Ints, which: slice | Ints) -> Rows:
        columns = self.positions[which], self.lengths[which]
        return Rows(edges, *columns, self.follows[which], self.truncated[which])


# From the offsets of documents, a sequence length and the key of the rows' order (None: as they come).
Table = Callable[[Ints, int, int | None], Rows]


def padded(offsets: Ints, seq_len: int, key: int | None) -> Rows:
    """A document a row, cut off at `seq_len`; documents are shuffled already."""
    whole = np.diff(offsets)
    lengths = np.minimum(whole, seq_len)
    return Rows(np.arange(len(whole) + 1), offsets[:-1], lengths, whole > lengths, whole - lengths)


def packed(offsets: Ints, seq_len: int, key: int | None) -> Rows:
    """Windows of long documents, then the rest of each beside others, best-fit; shuffled by `key`."""
    from gristmill.order.pack import pack_range  # which imports Numba

    whole = np.diff(offsets)
    columns = [np.empty(len(whole), np.uint32) for _ in range(3)]
    full, remainders, bins = pack_range(whole, seq_len, *columns)
    _, order, starts = columns
    windows = whole // seq_len
    documents = np.concatenate([np.repeat(np.arange(len(whole)), windows), order[:remainders].astype(np.int64)])
    first = np.arange(full) - np.repeat(np.cumsum(windows) - windows, windows)
    start, lengths = window_spans(whole[documents], np.append(first, np.full(remainders, -1)), seq_len)
    edges = np.concatenate([np.arange(full), full + starts[:bins].astype(np.int64), [full + remainders]])
    follows = start + lengths < whole[documents]
    made = Rows(edges, offsets[documents] + start, lengths, follows, np.zeros(len(documents), np.int64))
    return made if key is None or len(made) < 2 else made.take(permute(np.arange(len(made)), len(made), key))
