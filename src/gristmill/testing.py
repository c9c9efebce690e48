"""For tests, ours and yours: tiny stores, and the promises of a plan as assertions.

plan = gm.Plan({"web": tiny_store(tmp_path / "web")}, seq_len=16, batch_size=4)
assert_resumes_anywhere(plan)
assert_same_on_any_world(plan, world_sizes=(1, 2, 4), threads=(0, 2))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from gristmill.loader.fill import Batch
from gristmill.loader.loader import Loader
from gristmill.order.plan import Plan
from gristmill.store.opening import open_store
from gristmill.store.reader import Store

EOS = 256


def random_documents(count: int, mean_tokens: int = 20, seed: int = 0) -> list[list[int]]:
    """Documents of 1 to about 4 * mean_tokens ids below 256, without EOS."""
    rng = np.random.default_rng(seed)
    lengths = 1 + rng.geometric(1 / mean_tokens, count)
    return [rng.integers(0, EOS, length).tolist() for length in lengths]


def tiny_store(folder: Path, documents: Sequence[Sequence[int]] | None = None, shards: int = 2) -> Store:
    """A store of bare uint16 `.bin` files, EOS 256 after each document, split evenly into `shards` files."""
    documents = random_documents(60) if documents is None else documents
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for i in range(shards):
        part = documents[len(documents) * i // shards : len(documents) * (i + 1) // shards]
        tokens = [token for document in part for token in (*document, EOS)]
        paths.append(folder / f"part-{i}.bin")
        np.array(tokens, dtype=np.uint16).tofile(paths[-1])
    return open_store(paths, dtype="uint16", eos=EOS)


def served_steps(plan: Plan) -> list[int]:
    """The steps that a loader gives, in order."""
    assert plan.total_steps is not None, "an endless plan cannot be tested to its end"
    return [step for step in range(plan.total_steps) if not plan.skips.covers(step)]


def assert_equal_batches(found: Batch, expected: Batch, where: str) -> None:
    """Every key and every value."""
    assert found.keys() == expected.keys(), f"{where}: keys {sorted(found)} against {sorted(expected)}"
    for key, array in expected.items():
        assert found[key].dtype == array.dtype, f"{where}: dtype of {key}"
        assert np.array_equal(found[key], array), f"{where}: {key} differs"


def join_ranks(parts: Sequence[Batch]) -> Batch:
    """The global batch from the parts of all ranks: rank r of w has rows r, r + w, r + 2w, ..."""
    joined: Batch = {}
    for key in parts[0]:
        stacked = np.stack([part[key] for part in parts], axis=1)
        joined[key] = stacked.reshape(-1, *stacked.shape[2:])
    return joined


def assert_same_on_any_world(
    plan: Plan, world_sizes: Iterable[int] = (1, 2), threads: Iterable[int] = (0, 2), keys: Sequence[str] = ()
) -> None:
    """For each world size and number of threads, the union of the ranks at each step is the plan's step."""
    whole = Loader(plan, keys=keys, threads=0)
    for world_size in world_sizes:
        for count in threads:
            loaders = [Loader(plan, rank, world_size, keys=keys, threads=count) for rank in range(world_size)]
            served = zip(served_steps(plan), *loaders, strict=True)
            for step, *parts in served:
                where = f"step {step} on {world_size} ranks with {count} threads"
                assert_equal_batches(join_ranks(parts), whole.batch(step), where)


def assert_resumes_anywhere(
    plan: Plan, resumed: Plan | None = None, at: Iterable[int] | None = None, world_size: int = 1, threads: int = 0
) -> None:
    """From the state before any step, a new loader gives what an uninterrupted one gives, on any world size.

    `resumed` is the plan of the new loader, if it is another that is equal before the steps in `at`.
    """
    resumed = resumed or plan
    whole = Loader(resumed, threads=0)
    for step in served_steps(plan) if at is None else at:
        before = Loader(plan, threads=0)
        before.seek(step)
        state = json.loads(json.dumps(before.state_dict()))
        assert len(json.dumps(state)) < 1024, "a checkpoint is under 1 KB"
        loaders = [Loader(resumed, rank, world_size, threads=threads) for rank in range(world_size)]
        for loader in loaders:
            loader.load_state_dict(state)
        rest = [s for s in served_steps(resumed) if s >= step]
        for s, *parts in zip(rest, *loaders, strict=True):
            assert_equal_batches(join_ranks(parts), whole.batch(s), f"step {s}, resumed at {step}")
