"""Rows of packed documents as pieces. Imports Numba: import when needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.memory import empty
from gristmill.core.kernels.types import INTS

_INTS, _PACKED = types.int64[::1], types.uint32[::1]


@entry(types.void(INTS, types.int64, _PACKED, _PACKED, INTS, _INTS, _INTS, _INTS, types.boolean[::1]))
def lay_rows(
    offsets: Any,
    seq_len: int,
    order: Any,
    starts: Any,
    rows: Any,
    edges: Any,
    positions: Any,
    lengths: Any,
    follows: Any,
) -> None:
    """The pieces of rows in this order: first of all stand windows of `seq_len` tokens, a row each, then packed rows.

    `order` are the documents whose rests are packed, and `starts` where in it each packed row begins.
    """
    full = rows.size - starts.size
    # Where each window begins, and whether its document goes on behind it.
    windows, inside = empty(full, np.int64), empty(full, np.bool_)
    count = 0
    for document in range(offsets.size - 1):
        for begin in range(offsets[document], offsets[document + 1] - seq_len + 1, seq_len):
            windows[count], inside[count] = begin, begin + seq_len < offsets[document + 1]
            count += 1
    to = 0
    for i in range(rows.size):
        edges[i] = to
        if rows[i] < full:
            positions[to], lengths[to], follows[to] = windows[rows[i]], seq_len, inside[rows[i]]
            to += 1
            continue
        packed = rows[i] - full
        for piece in range(starts[packed], starts[packed + 1] if packed + 1 < starts.size else order.size):
            begin, end = offsets[order[piece]], offsets[order[piece] + 1]
            lengths[to] = (end - begin) % seq_len
            positions[to], follows[to] = end - lengths[to], False
            to += 1
    edges[rows.size] = to
