"""Pinned first steps of tiny plans: samples, fingerprints and the bytes of the batches."""

import hashlib

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import tiny_store

# cut: fingerprint, samples of steps 0 to 2, and a hash over every array of all five batches
GOLDEN = {
    "chunk": (
        "8247e32f24fc745c128bbd64422794f0",
        [[[0, 0, 6], [0, 0, 33], [1, 0, 19], [0, 0, 36]],
         [[0, 0, 47], [0, 0, 19], [0, 0, 13], [0, 0, 20]],
         [[1, 0, 29], [1, 0, 11], [1, 0, 26], [0, 0, 37]]],
        "7f63424e9cad85c5c2912b05c226330c",
    ),
    "pack": (
        "1f9ea9af6c3c1060dc682ddaf99322db",
        [[[0, 0, 15], [0, 0, 18], [1, 0, 21], [0, 0, 19]],
         [[0, 0, 25], [0, 0, 17], [0, 0, 7], [0, 0, 6]],
         [[1, 0, 9], [1, 0, 12], [1, 0, 3], [0, 0, 4]]],
        "d88acd661e8b7b8fb9b94005a74c154d",
    ),
    "pad": (
        "362009349eb040110ec2a9f27e1a78c5",
        [[[0, 0, 15], [0, 0, 30], [1, 0, 24], [0, 0, 9]],
         [[0, 0, 21], [0, 0, 18], [0, 0, 19], [0, 0, 10]],
         [[1, 0, 23], [1, 0, 12], [1, 0, 25], [0, 0, 33]]],
        "44e84338b469162d0cdec2e9dbf0a634",
    ),
    "window": (
        "37a5b37241dd3184b1baa5b9ab554854",
        [[[0, 0, 51], [0, 0, 368], [1, 0, 258], [0, 0, 306]],
         [[0, 0, 275], [0, 0, 212], [0, 0, 264], [0, 0, 122]],
         [[1, 0, 256], [1, 0, 166], [1, 0, 113], [0, 0, 118]]],
        "b4df1ad30f71a2081db477cdf599f4dd",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    web = tiny_store(folder / "web", [[i % 256] * (5 + i % 11) for i in range(40)], shards=2)
    code = tiny_store(folder / "code", [[(7 * i) % 256] * (3 + i % 17) for i in range(30)], shards=1)
    for store in (web, code):
        gm.index(store, seq_len=16)
    return {"web": web, "code": code}


def tiny_plan(stores, cut):
    chunk = cut == "chunk"
    phase = gm.Phase(2, weights={"web": 0.25, "code": 0.75})
    options = gm.PlanOptions(cut=cut, unit=16 if chunk else None, block=64, phases=[phase])
    return gm.Plan(
        stores, {"web": 0.7, "code": 0.3}, seq_len=8 if chunk else 16, batch_size=4, steps=5, options=options
    )


@pytest.mark.parametrize("cut", GOLDEN)
def test_the_first_steps_of_a_tiny_plan_are_pinned(stores, cut):
    plan, (fingerprint, samples, _) = tiny_plan(stores, cut), GOLDEN[cut]
    assert [plan.samples(step).tolist() for step in range(3)] == samples
    assert plan.fingerprint == fingerprint


@pytest.mark.parametrize("cut", GOLDEN)
def test_the_bytes_of_its_batches_are_pinned(stores, cut):
    digest = hashlib.sha256()
    keys = ("labels", "doc_ids", "position_ids", "cu_seqlens")
    for batch in gm.Loader(tiny_plan(stores, cut), keys=keys, threads=0):
        for key in sorted(batch):
            digest.update(key.encode())
            digest.update(np.ascontiguousarray(batch[key]).tobytes())
    assert digest.hexdigest()[:32] == GOLDEN[cut][2]
