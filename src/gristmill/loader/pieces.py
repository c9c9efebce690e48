"""A row of a batch is a list of *pieces*, stretches of consecutive tokens.

Labels, masks and document numbers all follow from the pieces: `loader.locate` finds those of a plan's samples,
`loader.fill` turns any into arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gristmill.core.arrays import Ints, Mask


class Pieces(NamedTuple):
    """Piece i is tokens [positions[i], + lengths[i]) of a table, from (rows[i], columns[i]) on; rows never go down.

    follows[i]: the next token of the table may be predicted from the piece's last one. truncated[i]: tokens of a
    document that cut="pad" leaves out.
    """

    rows: Ints
    columns: Ints
    positions: Ints
    lengths: Ints
    follows: Mask
    truncated: Ints

    def edges(self, rows: int) -> Ints:
        """The first piece of each of `rows` rows, and where the last one ends."""
        places = np.arange(rows + 1)
        if np.array_equal(self.rows, places[:-1]):  # one piece a row, by far the most common case
            return places
        return np.searchsorted(self.rows, places)

    def part(self, edges: Ints) -> Pieces:
        """The pieces of the consecutive rows that begin at `edges`, the last of which is the end; rows count from 0."""
        cut = slice(int(edges[0]), int(edges[-1]))
        rows = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        return Pieces._make((rows, *(column[cut] for column in self[1:])))
