"""Stores and plans with one damaged file: `verify` finds it, and loading finds it or gives the same batches.

An input is the name of a file in a folder with a plain and a compressed store, both packed, and a plan; then its bytes.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import gristmill as gm
from gristmill.core.seal import sealed
from gristmill.loader.plan_file import load_plan
from gristmill.store.verify import verify

CASES = (80, 8_000)
SECONDS = 60.0
KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")
SEQ_LEN = 256
WORDS = ("the", "of", "and", "to", "in", "that", "was", "his", "he", "it", "with", "is", "for", "as", "had", "you")
_NEVER_LOADED = ("run.json", "funnel.json", "inputs.parquet", "dropped.parquet", "duplicates.parquet")


def _documents() -> Iterator[str]:
    rng = random.Random(5)
    for i in range(160):
        yield " ".join(rng.choices(WORDS, k=rng.randint(2, 160))) + f" {i}"
    yield from ("short", "one and the same text of some length", "one and the same text of some length")


def _prepared(folder: Path, name: str, compression: str) -> None:
    (folder / "text").mkdir(exist_ok=True)
    for i, text in enumerate(_documents()):
        (folder / "text" / f"{i:03}.txt").write_text(text)
    store = {"tokens_per_shard": 20_000, "val_fraction": 0.1, "compression": compression}
    recipe = {"out": str(folder / name), "sources": [{"name": "text", "paths": [str(folder / "text")]}],
              "tokenizer": "byte", "filters": [{"length": {"min_chars": 10}}], "dedup": [{"exact": {}}],
              "store": store}  # fmt: skip
    gm.prepare(recipe, progress=False)
    (folder / name / "run.json").write_text(sealed({"host": "here", "seconds": 1.5}))
    gm.index(gm.open(folder / name), seq_len=SEQ_LEN, progress=False)


@functools.cache
def _made() -> Path:
    """The folder as it should be, made once a process."""
    folder = Path(tempfile.mkdtemp(prefix="flips-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, compression in (("plain", "none"), ("zstd", "zstd")):
        _prepared(folder, name, compression)
    shutil.rmtree(folder / "text")
    _plan(folder, "plain", "chunk").save(folder / "plan.json")
    return folder


def _names() -> list[str]:
    """One file of each kind: of shards those of the second, and of a split that is small."""
    found = (path.relative_to(_made()) for path in sorted(_made().rglob("*")) if path.is_file())
    kept = (name for name in found if "shard-" not in name.name or name.name.startswith("shard-00001"))
    return [name.as_posix() for name in kept if not name.name.startswith(".")]


def _plan(folder: Path, name: str, cut: str) -> gm.Plan:
    store = gm.open(folder / name)
    return gm.Plan({"text": store}, seq_len=SEQ_LEN, batch_size=4, seed=1, options=gm.PlanOptions(cut=cut))


def _loaded(folder: Path, name: str) -> str:
    """A digest of every batch under every cut, of what a document is and where it is seen."""
    digest = hashlib.sha256()
    for cut in ("chunk", "pad", "pack"):
        plan = _plan(folder, name, cut)
        for batch in gm.Loader(plan, keys=KEYS, threads=0):
            for key in sorted(batch):
                digest.update(np.ascontiguousarray(batch[key]).tobytes())
    store = gm.open(folder / name)
    digest.update(repr([row.doc_id for row in plan.trace(3)]).encode())
    digest.update(repr(plan.find(store.document_id(40))).encode() + store.document(41).text.encode())
    return digest.hexdigest()


@functools.cache
def _expected(name: str) -> str:
    return _loaded(_made(), name)


def seeds() -> list[bytes]:
    return [name.encode() + b"\n" + (_made() / name).read_bytes() for name in _names()]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    name, _, content = rng.choice(seeds).partition(b"\n")
    data, kind = bytearray(content), rng.random()
    if kind < 0.8:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8) if kind < 0.6 else rng.randrange(1, 256)
    elif kind < 0.9:
        del data[rng.randrange(len(data)) :]
    else:
        data += rng.randbytes(rng.randint(1, 9))
    return name + b"\n" + bytes(data)


def attempt(data: bytes, folder: Path) -> None:
    if not (folder / "plain").exists():
        shutil.copytree(_made(), folder, dirs_exist_ok=True)
    name, _, content = data.partition(b"\n")
    path = folder / name.decode()
    good = path.read_bytes()
    try:
        path.write_bytes(content)
        _check(folder, name.decode(), content != good)
    finally:
        path.write_bytes(good)


def _check(folder: Path, name: str, changed: bool) -> None:
    if name == "plan.json":
        assert load_plan(folder / name).fingerprint == _plan(folder, "plain", "chunk").fingerprint
        return
    store = name.partition("/")[0]
    assert _is_found(folder / store) == changed, f"verify {'misses' if changed else 'imagines'} damage of {name}"
    if not name.endswith(_NEVER_LOADED):
        assert _loaded(folder, store) == _expected(store), f"{name}: other batches"


def _is_found(root: Path) -> bool:
    try:
        return bool(verify(root, progress=False).faults)
    except gm.StoreError:
        return True
