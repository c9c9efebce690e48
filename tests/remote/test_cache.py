"""The cache of a machine before a real server: the same batches, hardly more bytes than served, within its limit."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.places.storage import VARIABLE
from gristmill.store.frames import Frames

Upload = Callable[[Path, str], str]
NEAR = {"locality": {"block": 2048, "window": 2}}
KEYS = ("labels", "doc_ids")


@pytest.fixture(scope="module", params=["none", "zstd"])
def stored(
    tmp_path_factory: pytest.TempPathFactory, make_store: Any, upload: Upload, request: pytest.FixtureRequest
) -> tuple[Path, str]:
    """4.5 million tokens in three shards, here and in the bucket, plain and compressed."""
    root = tmp_path_factory.mktemp("stores") / request.param
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 40_000, 3000).tolist() for _ in range(1500)]
    make_store(root, documents, tokens_per_shard=1_700_000, compression=request.param)
    gm.index(gm.open(root), seq_len=64)
    return root, upload(root, f"cached/{request.param}")


@pytest.fixture
def cache(tmp_path: Path, proxy: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of a tenth of the data, and nothing else that could hold it."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr("gristmill.loader.batch.CACHE_BYTES", 1)
    monkeypatch.setattr(Frames.__init__, "__defaults__", (1,))
    gm.storage("s3://corpus", cache=str(tmp_path / "cache"), cache_bytes="900KB")
    yield tmp_path / "cache"
    held = sum(path.stat().st_blocks * 512 for path in (tmp_path / "cache").rglob("*.part*"))
    assert held <= 900_000


def plan_of(path: Path | str | dict[str, Path | str], **options: Any) -> gm.Plan:
    sources: Any = {name: gm.open(each) for name, each in path.items()} if isinstance(path, dict) else gm.open(path)
    steps = options.pop("steps", 60)
    return gm.Plan(sources, seq_len=64, batch_size=8, steps=steps, seed=3, options={"cut": "chunk", **options})


def same(expected: Any, found: Any) -> bool:
    return all(np.array_equal(expected[key], found[key]) for key in expected)


@pytest.mark.parametrize("options", [{"cut": cut} for cut in ("chunk", "pack", "pad", "window")] + [
    NEAR, {"cut": "pad", **NEAR}, {"cut": "pack", **NEAR}, {"shuffle": False},
])  # fmt: skip
def test_batches_are_those_from_disk(stored: tuple[Path, str], cache: Path, options: Any) -> None:
    loaders = [gm.Loader(plan_of(path, **options), keys=KEYS, readahead_bytes=1 << 18) for path in stored]
    for expected, found in zip(*loaders, strict=True):
        assert same(expected, found)


def test_mixes_of_here_and_there_on_any_rank_and_after_a_resume(stored: tuple[Path, str], cache: Path) -> None:
    here, there = stored
    plans = [plan_of({"a": here, "b": second}, **NEAR) for second in (here, there)]
    for world_size in (1, 2, 4):
        for rank in range(world_size):
            mine, its = (gm.Loader(plan, rank, world_size, keys=KEYS) for plan in plans)
            for expected, found in itertools.islice(zip(mine, its, strict=True), 20):
                assert same(expected, found)
            again = gm.Loader(plans[1], rank, world_size, keys=KEYS)
            again.load_state_dict(its.state_dict())
            assert same(next(iter(again)), mine.batch(mine.step))
            for loader in (mine, its, again):
                loader.close(wait=True)


def test_an_epoch_fetches_hardly_more_than_it_serves_and_ends_its_threads(
    stored: tuple[Path, str], cache: Path
) -> None:
    plan, before = plan_of(stored[1], steps=None, **NEAR), set(threading.enumerate())
    with gm.Loader(plan, keys="labels", readahead_bytes=1 << 19) as loader:
        served = sum(batch["input_ids"].size for batch in loader) * 2
        stats = loader.stats()
    if "none" in stored[1]:
        assert served <= stats["fetched_bytes"] <= 1.05 * served
    assert stats["requests"] < 120 and stats["retries"] == 0
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("gristmill-fetch")]


def test_what_one_process_has_fetched_the_next_one_finds(stored: tuple[Path, str], cache: Path) -> None:
    plan = plan_of(stored[1], steps=3, **NEAR)
    first, second = (list(gm.Loader(plan, keys="labels", readahead_bytes=1)) for _ in range(2))
    fresh = plan_of(stored[1], steps=3, **NEAR)
    loader = gm.Loader(fresh, keys="labels", readahead_bytes=1)
    third = list(loader)
    stats = loader.stats()
    assert all(map(same, first, second)) and all(map(same, first, third))
    assert stats["cache_hits"] > 0 and stats["cache_misses"] == 0


def test_files_of_the_cache_that_were_damaged_or_cut_are_fetched_anew(stored: tuple[Path, str], cache: Path) -> None:
    expected = list(gm.Loader(plan_of(stored[0], steps=3, **NEAR), keys="labels"))
    list(gm.Loader(plan_of(stored[1], steps=3, **NEAR), keys="labels", readahead_bytes=1))
    files = sorted(cache.rglob("*.part"))
    for i, path in enumerate(files):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 8
        path.write_bytes(bytes(data) if i % 2 else bytes(data[: len(data) // 2]))
    loader = gm.Loader(plan_of(stored[1], steps=3, **NEAR), keys="labels", readahead_bytes=1)
    assert files and all(map(same, expected, loader))
    assert loader.stats()["cache_misses"] >= len(files) - 1


READER = """
import json, sys
import gristmill as gm
plan = gm.load_plan(sys.argv[1])
loader = gm.Loader(plan, int(sys.argv[2]), 4, keys="labels", threads=1, readahead_bytes=1 << 19)
sums = [int(batch["input_ids"].sum()) for batch in loader]
print(json.dumps([sums, loader.stats()]))
loader.close(wait=True)
"""


def test_ranks_of_a_machine_fetch_each_block_once_among_them(
    stored: tuple[Path, str], cache: Path, tmp_path: Path
) -> None:
    plan = plan_of(stored[1], steps=None, **NEAR)
    plan.save(tmp_path / "plan.json")
    gm.storage(
        "s3://corpus", cache=str(cache), cache_bytes="40MB"
    )  # no rank waits for another here, so that all is kept
    command = [sys.executable, "-c", READER, str(tmp_path / "plan.json")]
    ranks = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE) for rank in range(4)]
    told = [json.loads(rank.communicate(timeout=300)[0]) for rank in ranks]
    whole = [int(batch["input_ids"].sum()) for batch in gm.Loader(plan_of(stored[0], steps=None, **NEAR), threads=0)]
    assert [sum(sums) for sums in zip(*(sums for sums, _ in told), strict=True)] == whole
    size = 2 * plan.segments[0].lanes[0].order.samples * 64
    if "none" in stored[1]:
        assert sum(stats["fetched_bytes"] for _, stats in told) < 1.1 * size
    gm.storage("s3://corpus", cache=str(cache), cache_bytes="900KB")
    for path in cache.rglob("*.part"):
        path.unlink()
