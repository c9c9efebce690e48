"""A store's manifest.json, its sum taken out or made again: values of every kind reach the checks behind it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from _values import change_values

from gristmill.core.seal import sealed
from gristmill.store.manifest import MANIFEST, Manifest, load_manifest
from gristmill.store.opening import open_store
from gristmill.store.writer import write_shard
from harness import mutate as change_bytes

CASES = (1_500, 100_000)
EOS = 256


def _store(root: Path) -> Path:
    import numpy as np
    import pyarrow as pa

    if not (root / "train").exists():
        rows = pa.table({"id": ["a", "b"], "source": ["s", "s"], "path": ["p", "p"], "content_hash": [1, 2]})
        documents = np.array([1, 2, EOS, 3, EOS], np.uint16), np.array([3, 2]), rows
        entry, _ = write_shard(root, "train/shard-00000.bin", "uint16", [documents])
        funnel = [{"stage": "train", "source": "s", "documents": 2, "bytes": 9, "tokens": 5, "reasons": {"length": 1}}]
        named = {"name": "byte", "fingerprint": "0" * 32}
        (root / "val").mkdir()
        splits = {"train": [entry], "val": []}
        Manifest("uint16", EOS, 257, named, splits, {"seed": 0}, funnel, {"gristmill": "1"}).save(root)
    return root


def seeds() -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        values = json.loads((_store(Path(folder)) / MANIFEST).read_bytes())
    del values["sum"]
    bare = [{**values, "dtype": "1/3"}, {**values, "splits": None}, {**values, "funnel": [None]}, [], None]
    return [json.dumps(value).encode() for value in (values, *bare)]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.2:
        return change_bytes(rng, seeds)
    changed = json.loads(change_values(rng, seeds if rng.random() < 0.2 else seeds[:1]))
    return (
        sealed(changed).encode() if isinstance(changed, dict) and rng.random() < 0.5 else json.dumps(changed).encode()
    )


def attempt(data: bytes, folder: Path) -> None:
    root = _store(folder / "store")
    (root / MANIFEST).write_bytes(data)
    manifest = load_manifest(root)
    assert manifest.compression in ("none", "zstd", "mixed") and manifest.fingerprint
    for split in manifest.splits:
        if split in ("train", "val"):
            store = open_store(root / split)
            assert store.num_tokens >= 0 and store.num_documents >= 0 and store.fingerprint_of(store.num_shards)
