"""Batches of a compressed store are those of the plain one, whatever the cut, the keys and the threads."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
from gristmill.core.errors import StoreError
from gristmill.store.reader import Store
from gristmill.store.seekable import decompress
from gristmill.testing import assert_equal_batches, assert_resumes_anywhere, assert_same_on_any_world, served_steps

KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")
Stores = dict[str, Store]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, make_store: Callable[..., Path]) -> Stores:
    """The same text plain, compressed, and as a list of one store of each kind."""
    folder = tmp_path_factory.mktemp("stores")
    documents = [list(text.encode()) for text in topics.values()]
    roots = {}
    for compression in ("none", "zstd"):
        for name, part in (("whole", documents), ("first", documents[:30]), ("rest", documents[30:])):
            made = make_store(
                folder / compression / name, part, vocab=257, tokens_per_shard=180_000, compression=compression
            )
            roots[compression, name] = made
    opened = {
        "plain": gm.open(roots["none", "whole"]),
        "compressed": gm.open(roots["zstd", "whole"]),
        "plain in parts": gm.open([roots["none", "first"], roots["none", "rest"]]),
        "mixed": gm.open([roots["none", "first"], roots["zstd", "rest"]]),
    }
    for store in opened.values():
        gm.index(store, 300)
    return opened


def make_plan(store: Store, cut: str = "chunk", **changes: object) -> gm.Plan:
    options = gm.PlanOptions(cut=cut)
    return gm.Plan(
        {"web": store}, **{"seq_len": 300, "batch_size": 8, "seed": 3, "steps": 12, "options": options, **changes}
    )


@pytest.mark.parametrize("cut", ["chunk", "window", "pad", "pack"])
@pytest.mark.parametrize(("kind", "other"), [("plain", "compressed"), ("plain in parts", "mixed")])
@pytest.mark.parametrize("threads", [0, 2])
def test_every_cut_and_key_is_the_same(stores: Stores, cut: str, kind: str, other: str, threads: int) -> None:
    mine, its = make_plan(stores[kind], cut), make_plan(stores[other], cut)
    assert mine.fingerprint == its.fingerprint
    expected, found = (gm.Loader(plan, keys=KEYS, threads=threads) for plan in (mine, its))
    steps = 0
    for step, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert_equal_batches(b, a, f"step {step} of {other}")
        steps += 1
    assert steps == 12
    assert expected.stats()["truncated_tokens"] == found.stats()["truncated_tokens"]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_step_of_any_shape_is_the_same(stores: Stores, data: st.DataObject) -> None:
    shape = {
        "seq_len": data.draw(st.sampled_from([1, 64, 1000, 65_536, 70_000, 140_000])),
        "batch_size": data.draw(st.integers(1, 3)),
        "seed": data.draw(st.integers(0, 99)),
        "steps": 5,
    }
    cut = data.draw(st.sampled_from(["chunk", "window"]))
    step = data.draw(st.integers(0, 4))
    plain, packed = (
        gm.Loader(make_plan(stores[kind], cut, **shape), keys=("labels",)) for kind in ("plain", "compressed")
    )
    assert_equal_batches(packed.batch(step), plain.batch(step), f"step {step}")


def test_labels_cross_the_edges_of_frames_and_shards(stores: Stores) -> None:
    plan = make_plan(
        stores["compressed"], seq_len=32_768, batch_size=1, steps=None, options=gm.PlanOptions(shuffle=False)
    )
    stream = stores["plain"].tokens(0, stores["plain"].num_tokens).astype(np.int64)
    for step, batch in enumerate(gm.Loader(plan, keys=("labels",))):
        first = step * 32_768
        expected = np.append(stream[first + 1 : first + 32_769], [-100] * (first + 32_769 > len(stream)))
        assert (batch["labels"][0] == expected).all()


def test_mixes_of_plain_and_compressed_sources_are_the_same(stores: Stores) -> None:
    weights = {"a": 0.25, "b": 0.75}
    shape = {"weights": weights, "seq_len": 100, "batch_size": 16, "seed": 1, "steps": 6}
    plain = gm.Plan({"a": stores["plain"], "b": stores["plain in parts"]}, **shape)
    mixed = gm.Plan({"a": stores["compressed"], "b": stores["plain in parts"]}, **shape)
    for step in range(6):
        mine, its = (gm.Loader(plan, keys=KEYS).batch(step) for plan in (plain, mixed))
        assert_equal_batches(its, mine, f"step {step}")


def test_a_compressed_store_keeps_the_promises_of_a_plan(stores: Stores) -> None:
    plan = make_plan(stores["compressed"], steps=6)
    assert_same_on_any_world(plan, world_sizes=(1, 2, 4), keys=KEYS)
    assert_resumes_anywhere(plan, resumed=make_plan(stores["plain"], steps=6), at=(0, 3))
    assert_resumes_anywhere(make_plan(stores["plain"], steps=6), resumed=plan, at=(0, 3))


def test_trace_find_and_exclusions_are_the_same(stores: Stores) -> None:
    plans = [make_plan(stores[kind], seq_len=2000) for kind in ("plain", "compressed")]
    assert plans[0].trace(2) == plans[1].trace(2) != []
    assert plans[0].find("train-7") == plans[1].find("train-7") != []
    out = gm.PlanOptions(exclude=[gm.Exclude("train-7")])
    excluding = [gm.Loader(make_plan(stores[kind], options=out)) for kind in ("plain", "compressed")]
    for step in range(12):
        assert_equal_batches(excluding[1].batch(step), excluding[0].batch(step), f"step {step}")


def test_a_short_last_batch_and_a_rank_without_rows_are_the_same(stores: Stores) -> None:
    options = gm.PlanOptions(shuffle=False, drop_last=False)
    plans = [make_plan(stores[k], steps=None, batch_size=64, options=options) for k in ("plain", "compressed")]
    for rank in (0, 63):
        last = served_steps(plans[0])[-1]
        mine, its = (gm.Loader(plan, rank, 64).batch(last) for plan in plans)
        assert_equal_batches(its, mine, f"rank {rank}")


def test_a_loader_over_frames_can_be_pickled_and_forked_while_its_threads_run(stores: Stores) -> None:
    loader = gm.Loader(make_plan(stores["compressed"]), keys=KEYS, threads=2)
    expected = [gm.Loader(make_plan(stores["plain"]), keys=KEYS).batch(step) for step in range(12)]
    running = iter(loader)
    next(running)
    copy = pickle.loads(pickle.dumps(loader))
    assert_equal_batches(next(iter(copy)), expected[1], "the copy")
    child = os.fork()
    if child == 0:
        same = all((batch["labels"] == expected[1 + i]["labels"]).all() for i, batch in enumerate(running))
        os._exit(0 if same and loader.step == 12 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_each_frame_of_a_group_is_decompressed_once(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counted(frame: Any, out: Any, name: str) -> None:
        opened.append(name)
        decompress(frame, out, name)

    monkeypatch.setattr("gristmill.store.frames.decompress", counted)
    fresh = pickle.loads(pickle.dumps(stores["compressed"]))  # an opened store keeps what loaders decompressed
    gm.Loader(make_plan(fresh, batch_size=256), keys=KEYS).batch(0)
    assert len(opened) == len(set(opened)) > 6  # 256 rows, each in one or two of 9 frames


@pytest.mark.parametrize("threads", [0, 2])
def test_a_damaged_frame_stops_the_loader_with_the_shards_name(stores: Stores, tmp_path: Path, threads: int) -> None:
    root = Path(shutil.copytree(Path(stores["compressed"].facts.path).parent, tmp_path / "damaged"))
    path = root / "train/shard-00001.bin.zst"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"Frame \d of shard .*shard-00001\.bin\.zst"):
        for _ in gm.Loader(make_plan(gm.open(root), steps=200), threads=threads):
            pass
