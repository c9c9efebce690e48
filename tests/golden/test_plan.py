"""Pinned first steps of tiny plans: samples, fingerprints and the bytes of the batches."""

import hashlib

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import tiny_store

# cut: fingerprint, samples of steps 0 to 2, and a hash over every array of all five batches
GOLDEN = {
    "chunk": (
        "b5ff76ecd5d3b4cd1b74ffff1bfdd510",
        [[[0, 0, 32], [0, 0, 12], [0, 0, 16], [1, 0, 24]],
         [[0, 0, 35], [0, 0, 2], [0, 0, 11], [0, 0, 25]],
         [[0, 0, 15], [1, 0, 7], [0, 0, 7], [0, 0, 42]]],
        "6334697f56fac83f47ab0e3c26b3f91a",
    ),
    "pack": (
        "4586dab039a197eb7d39779428c470f6",
        [[[0, 0, 11], [0, 0, 21], [0, 0, 20], [1, 0, 4]],
         [[0, 0, 22], [0, 0, 23], [0, 0, 2], [0, 0, 9]],
         [[0, 0, 18], [1, 0, 17], [0, 0, 3], [0, 0, 13]]],
        "80d65dc87d3539719735bf2d28926119",
    ),
    "pad": (
        "804286836e553caccdfd0e2cce3c5585",
        [[[0, 0, 17], [0, 0, 6], [0, 0, 7], [1, 0, 3]],
         [[0, 0, 34], [0, 0, 15], [0, 0, 12], [0, 0, 35]],
         [[0, 0, 13], [1, 0, 8], [0, 0, 11], [0, 0, 21]]],
        "b6f7cdc695298c11e7ac8947051f11f2",
    ),
    "window": (
        "08ff95f177387285ded52eafbb2c5392",
        [[[0, 0, 194], [0, 0, 384], [0, 0, 199], [1, 0, 27]],
         [[0, 0, 284], [0, 0, 224], [0, 0, 32], [0, 0, 347]],
         [[0, 0, 235], [1, 0, 68], [0, 0, 92], [0, 0, 124]]],
        "24d6adb320c88c9009ca42aa690d781c",
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
