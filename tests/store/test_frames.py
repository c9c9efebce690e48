"""Frames in memory: as many as the bound allows, none that is being read let go, in every thread and child."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gristmill.core.arrays import Ints
from gristmill.core.errors import StoreError
from gristmill.places.eviction import READ
from gristmill.places.memory import view
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.frames import Frames
from gristmill.store.grid import Extent
from gristmill.store.opening import open_store
from gristmill.store.reader import Store
from gristmill.store.table import ShardTable

Make = Callable[..., Path]
DOCUMENTS = [[(13 * i + j * j) % 257 for j in range(4_000)] for i in range(90)]
PER_SHARD = 180_000


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory, make_store: Make) -> list[Path]:
    """The same documents as a plain and as a compressed store of two shards, each of three frames."""
    folder = tmp_path_factory.mktemp("frames")
    made = {"documents": DOCUMENTS, "vocab": 258, "tokens_per_shard": PER_SHARD}
    return [make_store(folder / kind, compression=kind, **made) for kind in ("none", "zstd")]


@pytest.fixture(scope="module")
def stores(roots: list[Path]) -> tuple[Store, Store]:
    return open_store(roots[0]), open_store(roots[1])


def frames_of(store: Store, limit: int) -> Frames:
    table = ShardTable([store])
    table.bins.ensure(np.arange(store.num_shards))
    return Frames(table, limit)


def numbers(frames: Frames, shard: int, *places: int) -> Ints:
    return frames._table.grid.firsts[shard] + np.array(places)


def test_the_cache_keeps_to_its_bound_and_lets_the_longest_unused_go(stores: tuple[Store, Store]) -> None:
    frames = frames_of(stores[1], limit=2 * FRAME_TOKENS * 2)
    for frame in (0, 1, 0, 2):
        with frames.leased(numbers(frames, 0, frame)):
            pass
    assert list(frames._read) == numbers(frames, 0, 0, 2).tolist()
    assert frames._read.bytes == 2 * FRAME_TOKENS * 2


def test_what_is_leased_stays_as_it_is_even_beyond_the_bound(stores: tuple[Store, Store]) -> None:
    plain, packed = stores
    frames, end = frames_of(packed, limit=1), int(packed.files.tokens[0])
    with frames.leased(numbers(frames, 0, 0, 1, 2)) as addresses:
        for places in ((0, 1), (2,), (1, 0)):  # whose memory would be used again if nobody read it
            with frames.leased(numbers(frames, 1, *places)):
                pass
        assert len(set(addresses.tolist())) == 3
        for frame, address in enumerate(addresses.tolist()):
            expected = plain.tokens(frame * FRAME_TOKENS, min((frame + 1) * FRAME_TOKENS, end))
            assert (view(address, "<u2", len(expected)) == expected).all()
    assert len(frames._read) == 1


def test_memory_that_nobody_reads_is_used_again(stores: tuple[Store, Store]) -> None:
    frames = frames_of(stores[1], limit=1)
    addresses = []
    for place in (0, 1, 0, 1):
        with frames.leased(numbers(frames, 0, place)) as found:
            addresses += found.tolist()
    assert len(set(addresses)) == 1


def test_a_damaged_frame_is_told_and_not_held(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", DOCUMENTS, vocab=258, tokens_per_shard=PER_SHARD, compression="zstd")
    path = root / "train/shard-00000.bin.zst"
    data = bytearray(path.read_bytes())
    data[1000] ^= 16
    path.write_bytes(bytes(data))
    frames = frames_of(open_store(root), limit=1 << 20)
    with pytest.raises(StoreError), frames.leased(numbers(frames, 0, 0, 1)):
        pass
    assert not frames._read


def test_many_threads_read_the_same_tokens_from_a_small_cache(stores: tuple[Store, Store]) -> None:
    plain, packed = stores
    frames = frames_of(packed, limit=3 * FRAME_TOKENS * 2)
    wrong: list[int] = []

    def read(seed: int) -> None:
        for start in np.random.default_rng(seed).integers(0, PER_SHARD // 2, 60).tolist():
            out = np.empty(100, np.uint16)
            frames.read(0, start, start + 100, out)
            if not (out == plain.tokens(start, start + 100)).all():
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(frames._read) <= 3


def test_a_lease_from_before_a_fork_is_given_back_in_the_child_without_harm(stores: tuple[Store, Store]) -> None:
    frames = frames_of(stores[1], limit=1 << 20)
    (first,) = numbers(frames, 0, 0).tolist()
    lease = frames.leased(np.array([first]))
    lease.__enter__()
    child = os.fork()
    if child == 0:
        with frames.leased(np.array([first])):
            lease.__exit__(None, None, None)
            os._exit(0 if list(frames._read) == [first] else 1)
    assert os.waitpid(child, 0)[1] == 0
    lease.__exit__(None, None, None)
    assert list(frames._read) == [first]


def came_ahead(frames: Frames, *places: int) -> None:
    """Frames of the first shard as if they had been asked for ahead of time."""
    for place, data in zip(
        places, frames._table.bins.parts([frames._range(Extent(0, p)) for p in places]), strict=True
    ):
        frames._put(Extent(0, place), frames._unpacked(Extent(0, place), data))


def read(frames: Frames, *places: int) -> None:
    with frames.leased(numbers(frames, 0, *places)):
        pass


def test_what_nobody_has_read_yet_stays_while_what_was_read_makes_room(stores: tuple[Store, Store]) -> None:
    frames = frames_of(stores[1], limit=1)
    frames.keep(2 * FRAME_TOKENS * 2, FRAME_TOKENS * 2)
    came_ahead(frames, 2)
    read(frames, 0)
    read(frames, 1)
    assert (
        list(frames._unread) == numbers(frames, 0, 2).tolist() and list(frames._read) == numbers(frames, 0, 1).tolist()
    )
    read(frames, 2)
    assert not frames._unread and list(frames._read) == numbers(frames, 0, 2).tolist()


def test_what_came_ahead_and_was_never_read_does_not_fill_memory_for_ever(stores: tuple[Store, Store]) -> None:
    frames = frames_of(stores[1], limit=1)
    frames.keep(2 * FRAME_TOKENS * 2, FRAME_TOKENS * 2)
    came_ahead(frames, 0, 1, 2)
    assert list(frames._unread) == numbers(frames, 0, 1, 2).tolist()
    read(frames, 0)
    assert len(frames._unread) == 1 and frames._read.bytes + frames._unread.bytes <= 2 * FRAME_TOKENS * 2


def test_what_the_plan_does_not_come_back_to_goes_first(stores: tuple[Store, Store]) -> None:
    frames = frames_of(stores[1], limit=2 * FRAME_TOKENS * 2)
    frames.supply.keeping.next_use = lambda positions: np.where(positions // FRAME_TOKENS == 1, READ, 0.0)
    read(frames, 0)
    read(frames, 1)
    read(frames, 2)
    assert list(frames._read) == numbers(frames, 0, 0, 2).tolist() and not frames._done
