"""Extents elsewhere come once for all who ask, a flipped bit is asked for again, and a replaced file is an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import gristmill as gm
from gristmill.places import door
from gristmill.places.local import Local
from gristmill.places.traffic import traffic
from gristmill.store.grid import Extent
from gristmill.store.supply import Supply
from gristmill.store.table import ShardTable

TOKENS = 20_480


class Far(Local):
    """Files of this machine that may not be mapped, behind a gate; `damage` says what to do to the n-th part."""

    maps = False
    gate = threading.Event()
    damage: Any = None
    version = 1
    parts: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, path: str) -> None:
        super().__init__(path.removeprefix("far:/"))

    def read_version(self, start: int, size: int) -> tuple[memoryview, int]:
        assert Far.gate.wait(60)
        data = self.read(start, size)
        Far.parts.append((Path(self.path).name, start))
        return memoryview(Far.damage(len(Far.parts), data) if Far.damage else data), Far.version

    def map(self) -> tuple[int, int]:
        from gristmill.places.memory import map_copy

        return map_copy(self.read())


@pytest.fixture
def table(tmp_path: Path, make_store: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardTable]:
    monkeypatch.setitem(door.PLACES, "far", Far)
    Far.gate, Far.damage, Far.version, Far.parts = threading.Event(), None, 1, []
    documents = [[(7 * i + j) % 1000 for j in range(3000)] for i in range(60)]
    root = make_store(tmp_path / "s", documents, tokens_per_shard=100_000)
    yield ShardTable([gm.open(f"far:/{root}")], extents=(TOKENS,))
    Far.gate.set()


def supply_of(table: ShardTable) -> tuple[Supply, Callable[[], list[tuple[int, int]]]]:
    """The supply of a table, and shard and place of what has come."""
    frames = table.frames
    assert frames is not None

    def there() -> list[tuple[int, int]]:
        placed = table.grid.placed(np.array(sorted([*frames._read, *frames._unread]), dtype=np.int64))
        return list(zip(*(at.tolist() for at in placed), strict=True))

    return frames.supply, there


def test_all_who_ask_for_an_extent_wait_for_one_request(table: ShardTable) -> None:
    supply, there = supply_of(table)
    futures = [supply.ask([Extent(0, 0), Extent(0, 1)], ahead=i == 0) for i in range(5)]
    assert all(found[0] is futures[0][0] for found in futures) and not there()
    Far.gate.set()
    assert len(futures[0][1].result(60).memory) == 2 * (TOKENS + 2048)
    supply.leave(wait=True)
    assert len(Far.parts) == 1 and there() == [(0, 0), (0, 1)]


def test_what_was_asked_ahead_of_time_is_withdrawn_with_the_last_reader_but_not_what_is_waited_for(
    table: ShardTable,
) -> None:
    supply, there = supply_of(table)
    supply._workers._most = supply._workers._fewer = 1
    supply.enter()
    (first,) = supply.ask([Extent(1, 0)])
    queued = [supply.ask([Extent(0, i)], ahead=True)[0] for i in (0, 2)]
    (hurried,) = supply.ask([Extent(0, 2)])
    supply.leave(wait=False)
    Far.gate.set()
    assert first.result(60) and hurried.result(60)
    supply._workers.join()
    assert queued[0].cancelled() and there() == [(0, 2), (1, 0)]


@pytest.mark.parametrize("times", [1, 2])
def test_a_bit_that_flips_once_is_fetched_again_and_twice_is_an_error(table: ShardTable, times: int) -> None:
    supply, _ = supply_of(table)
    before = traffic.figures()
    Far.damage = lambda number, data: bytes([data[0] ^ (number <= times)]) + data[1:]
    Far.gate.set()
    (future,) = supply.ask([Extent(0, 0)])
    if times == 1:
        assert future.result(60).memory[0] == 0
    else:
        with pytest.raises(gm.StoreError, match=r"shard-00000\.bin is damaged"):
            future.result(60)
    assert traffic.since(before)["retries"] == 1


def test_a_file_that_is_shorter_than_it_was_is_named(table: ShardTable) -> None:
    supply, _ = supply_of(table)
    Far.damage = lambda number, data: data[:-1]
    Far.gate.set()
    with pytest.raises(gm.StoreError, match=r"shard-00001\.bin ends before byte .* cut off or replaced"):
        supply.ask([Extent(1, 0)])[0].result(60)


def test_a_file_without_sums_that_is_replaced_while_it_is_read_is_an_error(tmp_path: Path, table: ShardTable) -> None:
    path = tmp_path / "foreign.bin"
    np.arange(100_000, dtype=np.uint16).tofile(path)
    supply, _ = supply_of(ShardTable([gm.open(f"far:/{path}", dtype="uint16")], extents=(TOKENS,)))
    Far.gate.set()
    assert supply.ask([Extent(0, 0)])[0].result(60)
    Far.version = 2
    with pytest.raises(gm.StoreError, match=r"foreign\.bin was replaced while it was read"):
        supply.ask([Extent(0, 2)])[0].result(60)


def test_who_waits_is_told_where_what_came_cannot_be_taken(table: ShardTable, monkeypatch: pytest.MonkeyPatch) -> None:
    supply, there = supply_of(table)

    def refuse(*_: object) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(supply, "_deliver", refuse)
    Far.gate.set()
    for future in supply.ask([Extent(0, 0), Extent(0, 1)]):
        with pytest.raises(ValueError, match="no room"):
            future.result(60)
    supply.leave(wait=True)
    assert not there()
