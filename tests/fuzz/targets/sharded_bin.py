"""The metadata of a folder of raw shards, and the shards themselves."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _values import change_values

from gristmill.store.opening import open_store
from gristmill.store.sharded_bin import read_tokenizer_state
from harness import mutate as change_bytes

CASES = (750, 100_000)
_MARK = b"\0SHARD\0"


def seeds() -> list[bytes]:
    shard = np.arange(12, dtype=np.uint32).tobytes()
    counts = {"total_tokens": 24, "train_shards": 2, "val_shards": 0, "tokens_per_shard": 12}
    said = [counts, {**counts, "eos": 5, "vocab_size": 50_304}, {}, {"train_shards": 1.5}, {"eos": -1}, {"eos": 2**40},
            {"train_shards": 10**30}, [], None]  # fmt: skip
    return [json.dumps(values).encode() + _MARK + shard for values in said] + [b"[" * 9_000 + _MARK, b"\xff" + _MARK]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.3:
        return change_bytes(rng, seeds)
    metadata, _, shard = rng.choice(seeds).partition(_MARK)
    try:
        metadata = change_values(rng, [metadata])
    except (ValueError, RecursionError):
        metadata = change_bytes(rng, [metadata])
    return metadata + _MARK + shard[: rng.choice((len(shard), rng.randint(0, len(shard))))]


def attempt(data: bytes, folder: Path) -> None:
    metadata, _, shard = data.partition(_MARK)
    for split in ("train", "val"):
        (folder / split).mkdir(exist_ok=True)
    (folder / "dataset_metadata.json").write_bytes(metadata)
    (folder / "tokenizer_state.json").write_bytes(metadata)
    (folder / "train" / "shard_00000.bin").write_bytes(shard)
    (folder / "train" / "shard_00001.bin").write_bytes(bytes(4))
    store = open_store(folder)
    assert store.tokens(0, store.num_tokens).tobytes() == shard + bytes(4)
    if store.eos is not None:
        lengths = [len(store.document(i).tokens) for i in range(store.num_documents)]
        assert sum(lengths) == store.num_tokens
    open_store(folder / "val")
    read_tokenizer_state(folder)
