"""Rows of packed documents as pieces. Imports Numba: import when needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.compiled import entry
from gristmill.core.kernels.memory import empty
from gristmill.core.kernels.types import INTS

_INTS, _PACKED = types.int64[::1], types.uint32[::1]
_MASK_IN = types.Array(types.boolean, 1, "C", readonly=True)
_TABLE = types.Array(types.int64, 2, "C", readonly=True)


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


@entry(types.void(INTS, INTS, INTS, INTS, INTS, INTS, _MASK_IN, INTS, _INTS, *[_INTS] * 4, types.boolean[::1], _INTS))
def order_pieces(
    sizes: Any,
    shifts: Any,
    own: Any,
    edges: Any,
    positions: Any,
    lengths: Any,
    follows: Any,
    truncated: Any,
    firsts: Any,
    out_rows: Any,
    out_columns: Any,
    out_positions: Any,
    out_lengths: Any,
    out_follows: Any,
    out_truncated: Any,
) -> None:
    """Pieces in the order of rows, and the first of each row.

    Stretch s has the next sizes[s] rows, which are own[...], the next sizes[s] + 1 edges, and the pieces between these,
    which lie shifts[s] further behind than they say.
    """
    firsts[:] = 0
    row, edge = 0, 0
    for stretch in range(sizes.size):
        for _ in range(sizes[stretch]):
            firsts[own[row] + 1] = edges[edge + 1] - edges[edge]
            row, edge = row + 1, edge + 1
        edge += 1
    for i in range(firsts.size - 1):
        firsts[i + 1] += firsts[i]
    row, piece = 0, 0
    for stretch in range(sizes.size):
        for _ in range(sizes[stretch]):
            column = 0
            for to in range(firsts[own[row]], firsts[own[row] + 1]):
                out_rows[to], out_columns[to] = own[row], column
                out_positions[to], out_lengths[to] = positions[piece] + shifts[stretch], lengths[piece]
                out_follows[to], out_truncated[to] = follows[piece], truncated[piece]
                column += lengths[piece]
                piece += 1
            row += 1


@entry(types.void(_TABLE, INTS, _TABLE, _TABLE, types.int64[:, :, ::1]))
def follow_places(lanes: Any, own: Any, told: Any, before: Any, after: Any) -> None:
    """The places of all lanes after each step, as `after` has them: (steps, rows, 3 x streams).

    A lane that gave nothing for a step stays where it was. Lanes are of (source, rows given), streams in turn.
    """
    rows, at = before.shape[0], 0
    for number in range(lanes.shape[1]):
        lane, column, end = number % rows, 3 * lanes[0, number], at + lanes[1, number]
        for step in range(after.shape[0]):
            given = at < end and own[at] // rows == step
            for i in range(3):
                last = before[lane, column + i] if step == 0 else after[step - 1, lane, column + i]
                after[step, lane, column + i] = told[at, i] if given else last
            at += given
