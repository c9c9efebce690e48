"""Rows of a block's documents: nothing is lost, nothing twice, and no row is too long."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.order.permute import permute
from gristmill.streams.assembly import Fed, _pieces
from gristmill.streams.cuts import Stretch
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
        for one, other in zip(rows.part(row, row + 1), plain.part(place, place + 1), strict=True):
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
    columns = rows.part(first, stop)
    for part, whole in zip(columns, rows[1:], strict=True):
        assert part.tolist() == [value for row in range(first, stop)
                                 for value in whole[rows.edges[row] : rows.edges[row + 1]].tolist()]  # fmt: skip


@given(each=st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=9), max_size=5), data=st.data())
def test_pieces_of_many_lanes_stand_in_the_order_of_the_rows_that_they_feed(
    each: list[list[int]], data: st.DataObject
) -> None:
    tables = [packed(offsets(lengths), 16, 3) for lengths in each]
    stretches, told = [], np.empty((0, 5), np.int64)
    for table in tables:
        first = data.draw(st.integers(0, len(table) - 1))
        stretches.append(Stretch([None], table, first, data.draw(st.integers(first + 1, len(table))), told))  # type: ignore[list-item]
    count = sum(stretch.stop - stretch.first for stretch in stretches)
    own = np.array(data.draw(st.permutations(range(count + 1)))[:count], np.int64)  # one row is padding
    starts = offsets([sum(lengths) for lengths in each])
    pieces, edges = _pieces(Fed(stretches, np.empty((2, 0), np.int64), own, told, []), starts, count + 1)
    rows = [(stretch, row, start) for stretch, start in zip(stretches, starts.tolist(), strict=False)
            for row in range(stretch.first, stretch.stop)]  # fmt: skip
    assert len(pieces.rows) == edges[-1] == sum(len(stretch.rows.part(row, row + 1)[0]) for stretch, row, _ in rows)
    for number, (stretch, row, start) in zip(own.tolist(), rows, strict=True):
        here = slice(edges[number], edges[number + 1])
        positions, lengths, follows, truncated = stretch.rows.part(row, row + 1)
        assert (pieces.rows[here] == number).all() and pieces.positions[here].tolist() == (positions + start).tolist()
        assert pieces.columns[here].tolist() == offsets(lengths.tolist())[:-1].tolist()
        assert [column[here].tolist() for column in pieces[3:]] == [
            column.tolist() for column in (lengths, follows, truncated)
        ]


def test_a_lane_that_gave_no_row_for_a_step_stays_where_it_was() -> None:
    told = np.array([(1, 0, 7, 0, 0), (1, 0, 8, 0, 0), (2, 5, 1, 0, 0)])
    fed = Fed([], np.array([(0, 0, 1, 1), (2, 0, 0, 1)]), np.array([0, 4, 3]), told, [])
    before = np.arange(12).reshape(2, 6)
    after = fed.places_after(3, before)
    assert after[:, 0, :3].tolist() == [[1, 0, 7], [1, 0, 7], [1, 0, 8]]  # it gave rows 0 and 4, of two a step
    assert after[:, 1, 3:].tolist() == [[9, 10, 11], [2, 5, 1], [2, 5, 1]]
    assert (after[:, 0, 3:] == before[0, 3:]).all() and (after[:, 1, :3] == before[1, :3]).all()
