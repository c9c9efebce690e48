"""Frames in memory: as many as the bound allows, none that is being read let go, in every thread and child."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gristmill.core.errors import StoreError
from gristmill.store.format import FRAME_TOKENS
from gristmill.store.frames import Frames
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


def held(frames: Frames) -> int:
    return len(frames._leased) + len(frames._idle)


def test_the_cache_keeps_to_its_bound_and_lets_the_longest_unused_go(stores: tuple[Store, Store]) -> None:
    frames = frames_of(stores[1], limit=2 * FRAME_TOKENS * 2)
    for frame in (0, 1, 0, 2):
        with frames.leased(np.array([0]), np.array([frame])):
            pass
    assert list(frames._idle) == [(0, 0), (0, 2)]
    assert held(frames) == 2


def test_what_is_leased_stays_even_beyond_the_bound(stores: tuple[Store, Store]) -> None:
    plain, packed = stores
    frames = frames_of(packed, limit=1)
    with frames.leased(np.array([0, 0, 0]), np.array([0, 1, 2])) as addresses:
        with frames.leased(np.array([1, 1]), np.array([0, 1])):
            assert held(frames) == 5
        out = np.empty(FRAME_TOKENS, np.uint16)
        frames.read(0, FRAME_TOKENS, 2 * FRAME_TOKENS, out)
        assert (out == plain.tokens(FRAME_TOKENS, 2 * FRAME_TOKENS)).all()
        assert len(set(addresses.tolist())) == 3
    assert held(frames) == 0


def test_a_damaged_frame_leaves_no_lease_behind(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", DOCUMENTS, vocab=258, tokens_per_shard=PER_SHARD, compression="zstd")
    path = root / "train/shard-00000.bin.zst"
    data = bytearray(path.read_bytes())
    data[1000] ^= 16
    path.write_bytes(bytes(data))
    frames = frames_of(open_store(root), limit=1 << 20)
    with pytest.raises(StoreError), frames.leased(np.array([0, 0]), np.array([1, 0])):
        pass
    assert not frames._leased


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
    assert not wrong and not frames._leased
    assert held(frames) <= 3


def test_a_lease_from_before_a_fork_is_given_back_in_the_child_without_harm(stores: tuple[Store, Store]) -> None:
    frames = frames_of(stores[1], limit=1 << 20)
    lease = frames.leased(np.array([0]), np.array([0]))
    lease.__enter__()
    child = os.fork()
    if child == 0:
        with frames.leased(np.array([0]), np.array([0])):
            lease.__exit__(None, None, None)
            os._exit(0 if list(frames._leased) == [(0, 0)] else 1)
    assert os.waitpid(child, 0)[1] == 0
    lease.__exit__(None, None, None)
    assert list(frames._idle) == [(0, 0)]
