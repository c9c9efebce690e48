"""Whether a stream without end has anything to give: its lanes tell each other which units no document is left of.

A unit gives the same in every epoch, so once all that a lane ever comes to have given nothing, it would go on for ever.
Where it may not (a function that draws, a file that could not be read for a while), any document begins this anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gristmill.core.locks import Lock
from gristmill.curate.ledger import add_counts
from gristmill.streams.lanes import Walk
from gristmill.streams.unread import ALL_READ, Unread, shown_losses


class Silence:
    """The units that gave nothing, and what was lost in them. Safe to call from many threads."""

    def __init__(self, walk: Walk) -> None:
        self._lock, self._units = Lock(), walk.units
        # In an order of its own each epoch a lane comes to all units at last, in the files' order to so many in turn.
        self._in_turn = walk.units // math.gcd(walk.lanes, walk.units) if walk.key is None else None
        self._found, self._count = np.zeros(0, np.bool_), 0
        self._dropped, self._unread = dict[str, int](), ALL_READ

    def met(self, units: Sequence[int], dropped: Mapping[str, int], unread: Unread, before: int) -> str | None:
        """A lane has met these units, which gave nothing, and `before` them as many units in a row: what was lost in
        all, in brackets, if it will never meet others.
        """
        with self._lock:
            if not len(self._found):
                self._found = np.zeros(self._units, np.bool_)
            known = int(np.count_nonzero(self._found[units]))
            self._found[units] = True
            self._count += len(units) - known
            if not known:  # else some would be told twice
                add_counts(self._dropped, dropped)
                self._unread = self._unread.and_then(unread)
            ended = self._count == self._units if self._in_turn is None else before + len(units) >= self._in_turn
            return shown_losses(self._dropped, self._unread) if ended else None

    def broken(self) -> None:
        """A lane has met a document."""
        if self._count:
            with self._lock:
                self._found[:] = False
                self._count, self._dropped, self._unread = 0, {}, ALL_READ
