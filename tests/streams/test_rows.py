"""Rows of a block's documents: nothing is lost, nothing twice, and no row is too long."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.order.permute import permute
from gristmill.streams.rows import Rows, packed, padded

LENGTHS = st.lists(st.integers(1, 50), max_size=30)


def offsets(lengths: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.cumsum([0, *lengths], dtype=np.int64)


def covered(rows: Rows) -> list[int]:
    spans = zip(rows.positions.tolist(), rows.lengths.tolist(), strict=True)
    return sorted(position for start, length in spans for position in range(start, start + length))


@given(lengths=LENGTHS, seq_len=st.integers(1, 20), key=st.none() | st.integers(0, 2**64 - 1))
def test_packing_serves_every_token_once(lengths: list[int], seq_len: int, key: int | None) -> None:
    rows = packed(offsets(lengths), seq_len, key)
    assert covered(rows) == list(range(sum(lengths)))
    assert all(rows.lengths[a:b].sum() <= seq_len for a, b in zip(rows.edges, rows.edges[1:], strict=False))
    ends = set(offsets(lengths).tolist())
    after = (rows.positions + rows.lengths).tolist()
    assert rows.follows.tolist() == [end not in ends for end in after]


@given(lengths=LENGTHS, seq_len=st.integers(1, 20), key=st.integers(0, 2**64 - 1))
def test_rows_stand_in_the_order_of_windows_and_bins_that_the_key_permutes(
    lengths: list[int], seq_len: int, key: int
) -> None:
    plain, rows = packed(offsets(lengths), seq_len, None), packed(offsets(lengths), seq_len, key)
    windows = [begin for start, length in zip(offsets(lengths).tolist(), lengths, strict=False)
               for begin in range(start, start + length - seq_len + 1, seq_len)]  # fmt: skip
    assert plain.positions[: len(windows)].tolist() == windows
    places = permute(np.arange(len(plain)), len(plain), key) if len(plain) > 1 else np.arange(len(plain))
    for row, place in enumerate(places.tolist()):
        for one, other in zip(rows.part(row, row + 1)[1:], plain.part(place, place + 1)[1:], strict=True):
            assert one.tolist() == other.tolist()


@given(lengths=LENGTHS, key=st.integers(0, 2**64 - 1))
def test_a_key_moves_rows_and_changes_none(lengths: list[int], key: int) -> None:
    def each(rows: Rows) -> list[list[tuple[int, int]]]:
        pieces = list(zip(rows.positions.tolist(), rows.lengths.tolist(), strict=True))
        return sorted(pieces[a:b] for a, b in zip(rows.edges, rows.edges[1:], strict=False))

    assert each(packed(offsets(lengths), 16, key)) == each(packed(offsets(lengths), 16, None))


@given(lengths=LENGTHS, seq_len=st.integers(1, 60))
def test_padding_has_a_document_a_row_and_counts_what_it_cuts_off(lengths: list[int], seq_len: int) -> None:
    rows = padded(offsets(lengths), seq_len, None)
    assert len(rows) == len(lengths)
    assert (rows.lengths + rows.truncated).tolist() == lengths and max(rows.lengths, default=0) <= seq_len


@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=30), data=st.data())
def test_a_part_has_the_rows_of_the_whole(lengths: list[int], data: st.DataObject) -> None:
    rows = packed(offsets(lengths), 16, 3)
    first = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(first, len(rows)))
    part = rows.part(first, stop)
    assert len(part) == stop - first
    assert part.positions.tolist() == rows.positions[rows.edges[first] : rows.edges[stop]].tolist()
