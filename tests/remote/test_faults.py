"""Faults that stay, and those that take a while: an object that is another, a server that is away, an endless body."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.places.door import place_at
from gristmill.places.retrying import Patience
from gristmill.places.storage import VARIABLE

Upload = Callable[[Path, str], str]


@pytest.fixture(params=["none", "zstd"])
def stored(tmp_path: Path, make_store: Any, upload: Upload, request: pytest.FixtureRequest) -> tuple[Path, str]:
    """A store of one shard, on disk and in the bucket."""
    rng = np.random.default_rng(0)
    documents = rng.integers(0, 50_000, (200, 999)).tolist()
    root = make_store(tmp_path / "s", documents, tokens_per_shard=10**6, compression=request.param)
    return root, upload(root, f"faults/{request.param}")


def batches(path: Path | str, threads: int = 0) -> Iterator[Any]:
    plan = gm.Plan(gm.open(path), seq_len=64, batch_size=8, steps=60)
    return iter(gm.Loader(plan, threads=threads))


def shard_of(root: Path) -> Path:
    return next(path for path in (root / "train").iterdir() if ".bin" in path.name)


def test_a_truncated_object_is_an_error_that_names_it(stored: tuple[Path, str], upload: Upload, proxy: Any) -> None:
    here, there = stored
    shard = shard_of(here)
    shard.write_bytes(shard.read_bytes()[:-5000])
    upload(here, there.removeprefix("s3://corpus/"))
    with pytest.raises(gm.StoreError, match=rf"{there}/train/{shard.name}"):
        list(batches(there))


@pytest.mark.parametrize("when", ["before a run", "in its middle"])
def test_an_object_that_was_replaced_is_an_error_and_never_another_token(
    stored: tuple[Path, str], tmp_path: Path, make_store: Any, upload: Upload, proxy: Any, when: str
) -> None:
    """The other object is a good shard of another store, of as many tokens."""
    here, there = stored
    expected = [batch["input_ids"].copy() for batch in batches(here)]
    rng, packing = np.random.default_rng(1), "zstd" if shard_of(here).suffix == ".zst" else "none"
    documents = rng.integers(0, 50_000, (200, 999)).tolist()
    other = make_store(tmp_path / "t", documents, tokens_per_shard=10**6, compression=packing)
    served, loader = [], batches(there) if when == "in its middle" else None
    if loader is not None:
        served += [next(loader)["input_ids"].copy() for _ in range(2)]
    replaced = shard_of(other)
    (tmp_path / "only" / "train").mkdir(parents=True)
    (tmp_path / "only" / "train" / replaced.name).write_bytes(replaced.read_bytes())
    upload(tmp_path / "only", there.removeprefix("s3://corpus/"))
    told = []
    try:
        served += [batch["input_ids"].copy() for batch in loader or batches(there)]
    except gm.StoreError as error:
        told.append(str(error))
    # In the middle of a run all that it needs may be here already.
    assert when == "in its middle" or any(f"{there}/train/{replaced.name}" in text for text in told), told
    assert all(np.array_equal(a, b) for a, b in zip(expected, served, strict=False))


def test_a_server_that_vanishes_is_waited_for(stored: tuple[Path, str], proxy: Any, soak: bool) -> None:
    expected = [batch["input_ids"].copy() for batch in batches(stored[0])]
    loader, away, back = batches(stored[1], threads=2), threading.Event(), threading.Event()

    def vanish() -> None:
        with proxy.away():
            away.set()
            time.sleep(20 if soak else 2)
        back.set()

    first = next(loader)["input_ids"].copy()
    threading.Thread(target=vanish).start()
    assert away.wait(10)
    # Another loader, so that it is a server that is away which is asked.
    found = [batch["input_ids"].copy() for batch in batches(stored[1], threads=2)]
    assert back.is_set()
    found_here = [first, *(batch["input_ids"].copy() for batch in loader)]
    for ours in (found, found_here):
        assert all(np.array_equal(a, b) for a, b in zip(expected, ours, strict=True))


def test_a_body_without_an_end_is_given_up_after_the_time_a_request_may_take(
    stored: tuple[Path, str], proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    gm.storage("s3://corpus", timeout=0.5, deadline=20.0)
    rng = random.Random(3)
    slow = [rng.random() < 0.1 for _ in range(1000)]
    proxy.begin(lambda number, method: "slow" if slow[number % 1000] else None)
    found = [batch["input_ids"].copy() for batch in batches(stored[1])]
    proxy.begin()
    assert all(np.array_equal(a["input_ids"], b) for a, b in zip(batches(stored[0]), found, strict=True))
    monkeypatch.setattr(Patience, "wait", lambda self, tried: 0.0)
    gm.storage("s3://corpus", timeout=0.2, tries=2)
    store = gm.open(stored[1])
    proxy.begin(lambda number, method: "slow")
    with pytest.raises(gm.GristmillError, match=r"s3://corpus/faults/.* \(.*\)|s3://corpus/faults/.*shard"):
        store.tokens(0, 1000)


@pytest.mark.parametrize("fault", ["shorter", "longer", "elsewhere", "half", "later"])
def test_an_answer_of_other_bytes_than_were_asked_for_is_asked_for_again(
    stored: tuple[Path, str], proxy: Any, fault: str
) -> None:
    shard, there = shard_of(stored[0]), f"{stored[1]}/train/{shard_of(stored[0]).name}"
    for start, size in ((0, 5000), (1234, 100), (0, 1)):
        proxy.begin(lambda number, method: fault if number < 2 else None)
        assert place_at(there).read(start, size) == shard.read_bytes()[start : start + size]


@pytest.mark.parametrize("fault", ["shorter", "longer", "elsewhere", "half", "later", "cut"])
def test_memory_holds_all_that_was_asked_for_whatever_came_before(
    stored: tuple[Path, str], proxy: Any, fault: str
) -> None:
    data, there = shard_of(stored[0]).read_bytes(), f"{stored[1]}/train/{shard_of(stored[0]).name}"
    for start, size in ((0, 350_000), (1234, 100), (len(data) - 50, 80)):
        proxy.begin(lambda number, method: fault if number < 2 else None)
        memory = bytearray(size)
        came, version = place_at(there).read_into(start, memoryview(memory))
        assert memory[:came] == data[start : start + size] and came == min(size, len(data) - start)
        assert version == place_at(there).stamp()[1]


def test_trouble_with_looking_for_an_object_is_one_sentence(
    stored: tuple[Path, str], proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    gm.storage("s3://corpus", tries=2)
    there = place_at(f"{stored[1]}/manifest.json")
    answers = (("500", "the server answers 500", gm.EngineError), ("403", "refuses these credentials", gm.ConfigError))
    for fault, why, kind in answers:
        proxy.begin(lambda number, method, fault=fault: fault)
        with pytest.raises(kind, match=rf"manifest\.json cannot be looked for \(.*{why}"):
            there.exists()


def test_a_pack_index_of_which_a_part_comes_is_cut_off(stored: tuple[Path, str], upload: Upload, proxy: Any) -> None:
    here, there = stored
    gm.index(gm.open(here), seq_len=64)
    upload(here, there.removeprefix("s3://corpus/"))

    def shorter(number: int, method: str) -> str | None:
        """The header comes by itself, and then all of the index, whose length only the answer tells."""
        asked = [name for name in proxy.requests[: number + 1] if name.startswith("GET") and name.endswith(".gmi")]
        return "shorter" if len(asked) == 2 else None

    proxy.begin(shorter)
    with pytest.raises(gm.StoreError, match=r"pack-64\.gmi was cut off"):
        gm.Plan(gm.open(there), seq_len=64, batch_size=8, options={"cut": "pack"})
