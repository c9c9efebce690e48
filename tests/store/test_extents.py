"""Frames stand in the place of shards, and nothing lies between them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.places.memory import view
from gristmill.store.extents import Extents
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.table import ShardTable

Make = Callable[..., Path]


@pytest.fixture
def table(tmp_path: Path, make_store: Make) -> ShardTable:
    """A plain shard, then a compressed one of three frames."""
    plain = make_store(tmp_path / "plain", [[1] * 999])
    packed = make_store(tmp_path / "packed", [list(range(150_000))], vocab=200_000, compression="zstd")
    made = ShardTable([gm.open(plain), gm.open(packed)])
    made.bins.ensure(np.array([0, 1]))
    return made


def leased(table: ShardTable, pieces: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """(first, end, first token, bytes a token) of each extent that stands in the table of these pieces."""
    positions, lengths = (np.array(column) for column in zip(*pieces, strict=True))
    with Extents(table).leased(table.grid.touched(positions, lengths)) as (starts, addresses, headers, itemsizes):
        assert not headers.any() and (starts[1:] >= starts[:-1]).all() and not addresses[1::2].any()
        return [
            (int(starts[i]), int(starts[i + 1]), int(view(int(addresses[i]), f"<u{itemsizes[i]}", 1)[0]), itemsizes[i])
            for i in range(0, len(starts), 2)
        ]


def test_a_mapped_shard_stands_whole_and_a_compressed_one_in_the_frames_that_are_touched(table: ShardTable) -> None:
    last = 1000 + 2 * FRAME_TOKENS
    assert leased(table, [(5, 10), (last + 7, 3), (990, 20)]) == [
        (0, 1000, 1, 2), (1000, 1000 + FRAME_TOKENS, 0, 4), (last, 151_001, 2 * FRAME_TOKENS, 4),
    ]  # fmt: skip


def test_a_piece_over_several_frames_has_all_of_them_once(table: ShardTable) -> None:
    whole = leased(table, [(1000, 150_001), (2000, 5)])
    assert [(first, end) for first, end, _, _ in whole] == [
        (1000 + k * FRAME_TOKENS, min(1000 + (k + 1) * FRAME_TOKENS, 151_001)) for k in range(3)
    ]
