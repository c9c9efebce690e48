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
from gristmill.places.cache import Cache
from gristmill.places.local import Local
from gristmill.places.traffic import traffic
from gristmill.store import keeping
from gristmill.store import supply as module
from gristmill.store.grid import Extent
from gristmill.store.held import SpareMemory
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


def test_what_is_on_its_way_is_not_counted_again(table: ShardTable) -> None:
    frames = table.frames
    assert frames is not None
    one = frames.ask_ahead(np.array([1]))
    assert one == 2 * (TOKENS + 2048) and frames.ask_ahead(np.array([1])) == 0
    assert frames.ask_ahead(np.array([0, 1, 2])) > one
    Far.gate.set()
    frames.supply._workers.join()
    assert frames.ask_ahead(np.array([0, 1, 2])) == 0 and sorted(start for _, start in Far.parts) == [0, 40_960, 81_920]


def test_of_what_comes_together_the_cache_keeps_what_it_would_of_each(
    table: ShardTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supply, there = supply_of(table)
    cache = Cache(tmp_path / "cache", 1 << 30)
    monkeypatch.setattr(keeping, "cache_of", lambda path: cache)
    monkeypatch.setattr(cache, "keeps", lambda part: part.start > 0)
    before = traffic.figures()
    found = [future.result(60).memory for future in asked_together(supply, monkeypatch)]
    supply._workers.join()
    kept = [path.name for path in (tmp_path / "cache").rglob("*.part")]
    assert len(kept) == 3 and len(Far.parts) == 3 and traffic.since(before)["cache_misses"] == 3
    assert found[2].base is None and len(there()) == 5, "what is not kept is a copy, and not all that came"


def asked_together(supply: Supply, monkeypatch: pytest.MonkeyPatch, *, fast: bool = True) -> list[Any]:
    """Four extents asked for one by one, while another is on its way, of which the last two are apart from the rest."""
    monkeypatch.setattr(supply._pace, "is_fast", lambda: fast)
    supply._workers._most = supply._workers._fewer = 1
    first = supply.ask([Extent(1, 0)])
    found = [supply.ask([Extent(0, place)], ahead=place != 1)[0] for place in (2, 0, 1, 4)]
    Far.gate.set()
    return [*first, *found]


@pytest.mark.parametrize("fast", [True, False])
def test_neighbours_that_wait_are_brought_by_one_request_where_answers_are_fast(
    table: ShardTable, monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    supply, there = supply_of(table)
    found = asked_together(supply, monkeypatch, fast=fast)
    assert all(future.result(60) for future in found) and len(Far.parts) == (3 if fast else 5)
    supply._workers.join()
    assert there() == [(0, 0), (0, 1), (0, 2), (0, 4), (1, 0)] and not supply._flights


def test_no_request_brings_more_than_its_bound(table: ShardTable, monkeypatch: pytest.MonkeyPatch) -> None:
    supply, _ = supply_of(table)
    monkeypatch.setattr(module, "TOGETHER_BYTES", 100_000)  # two extents of 41 KB, and no third
    assert all(future.result(60) for future in asked_together(supply, monkeypatch)) and len(Far.parts) == 4


@pytest.mark.parametrize("cached", [False, True])
def test_what_neighbours_bring_together_comes_into_memory_that_is_used_again(
    table: ShardTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    supply, _ = supply_of(table)
    cache = Cache(tmp_path / "cache", 1 << 30)
    monkeypatch.setattr(keeping, "cache_of", lambda path: cache if cached else None)
    monkeypatch.setattr(cache, "keeps", lambda part: part.start > 0)
    monkeypatch.setattr(supply, "_usual", 50_000)  # an extent has 41 KB
    monkeypatch.setattr(supply, "_bodies", SpareMemory(200_000, 50_000))
    found = [future.result(60) for future in asked_together(supply, monkeypatch)]
    supply._workers.join()
    assert len(supply._bodies._slots) == 1 and not supply._together
    supply._bodies._slots[0][:] = 0xFF  # by which nothing that is held may change
    for held, (shard, place) in zip(found, ((1, 0), (0, 2), (0, 0), (0, 1), (0, 4)), strict=True):
        data = Path(table.bins.path(shard).removeprefix("far:/")).read_bytes()
        start, end = (int(at[0]) for at in table.grid.byte_ranges(np.array([shard]), np.array([place])))
        assert held.memory.tobytes() == data[start:end]


def test_only_some_requests_bring_neighbours_at_a_time(table: ShardTable, monkeypatch: pytest.MonkeyPatch) -> None:
    supply, _ = supply_of(table)
    monkeypatch.setattr(supply, "_together", module.TOGETHER_REQUESTS)
    assert all(future.result(60) for future in asked_together(supply, monkeypatch)) and len(Far.parts) == 5


def test_a_damaged_extent_is_no_error_of_those_that_were_brought_with_it(
    table: ShardTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    supply, _ = supply_of(table)

    def damage(_: int, data: bytes) -> bytes:
        name, start = Far.parts[-1]
        at = 2 * TOKENS + 8192 - start if name == "shard-00000.bin" else -1
        return data if not 0 <= at < len(data) else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    Far.damage = damage
    other, *good, damaged, apart = asked_together(supply, monkeypatch)
    assert all(future.result(60) for future in (other, *good, apart))
    with pytest.raises(gm.StoreError, match=r"shard-00000\.bin is damaged"):
        damaged.result(60)
    supply._workers.join()
    assert not supply._together


def test_answers_are_fast_once_there_were_some_and_they_came_soon_after_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, pace = [0.0], module.Pace()
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    for _ in range(module.LAST_ANSWERS):
        pace.came(1 << 20)
    assert not pace.is_fast(), "too few to tell"
    pace.came(1 << 20)
    assert pace.is_fast()
    now[0] = module.LAST_ANSWERS * (1 << 20) / module.TOGETHER_SPEED
    pace.came(1 << 20)
    assert pace.is_fast()
    now[0] *= 2
    pace.came(1 << 20)
    assert not pace.is_fast()


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
