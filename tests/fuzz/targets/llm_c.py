"""Headers of llm.c's token files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import gristmill as gm
from harness import mutate as change_bytes

CASES = (400, 100_000)
COUNT = 300
ODD = (0, 1, COUNT - 1, COUNT, COUNT + 1, 2 * COUNT, 2**31 - 1, 2**31, 2**32 - 1, 20240520, 20240801)


def _file(magic: int, dtype: str) -> bytes:
    head = np.zeros(256, "<i4")
    head[:3] = magic, 1, COUNT
    return head.tobytes() + (np.arange(COUNT) % 50).astype(dtype).tobytes()


def seeds() -> list[bytes]:
    return [_file(20240520, "<u2"), _file(20240801, "<u4")]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.5:
        return change_bytes(rng, seeds)
    data, at = bytearray(rng.choice(seeds)), 4 * rng.randrange(3)
    data[at : at + 4] = rng.choice(ODD).to_bytes(4, "little")
    return bytes(data)


def attempt(data: bytes, folder: Path) -> None:
    path = folder / "a.bin"
    path.write_bytes(data)
    store = gm.open(path, eos=7)
    assert store.num_tokens * store.dtype.itemsize <= len(data)
    plan = gm.Plan({"a": store}, seq_len=16, batch_size=1, options=gm.PlanOptions(shuffle=False))
    batch = gm.Loader(plan, keys=("doc_ids", "labels"), threads=0).batch(len(plan) - 1)
    last = (len(plan) - 1) * 16
    assert (batch["input_ids"][0] == store.tokens(last, last + 16)).all()
