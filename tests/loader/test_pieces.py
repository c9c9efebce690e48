"""Pieces of rows: where each row's begin, and those of a few rows alone."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.loader.pieces import Pieces


def pieces(rows: list[int]) -> Pieces:
    numbers = np.arange(len(rows))
    return Pieces(np.array(rows), numbers, numbers * 10, numbers + 1, numbers > 0, numbers * 0)


@pytest.mark.parametrize(("rows", "edges"), [([0, 1, 2], [0, 1, 2, 3]), ([0, 0, 2], [0, 2, 2, 3]), ([], [0, 0, 0, 0])])
def test_edges_are_the_first_piece_of_each_row_and_the_end_of_the_last(rows: list[int], edges: list[int]) -> None:
    assert pieces(rows).edges(3).tolist() == edges


def test_a_part_has_the_pieces_of_its_rows_which_count_from_0() -> None:
    part = pieces([0, 0, 1, 3]).part(np.array([2, 3, 3, 4]))
    assert part.rows.tolist() == [0, 2] and part.positions.tolist() == [20, 30] and part.follows.all()
