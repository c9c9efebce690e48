"""A plan's JSON, and the first batch of what it asks for."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from _values import change_values

import gristmill as gm
from gristmill.testing import random_documents, tiny_store
from harness import mutate as change_bytes

CASES = (500, 100_000)
MEMORY = 2 << 30
# A batch that is asked for may be as large as the plan says; beyond this many tokens it is not built here.
MOST_TOKENS = 1 << 22


def _stores(folder: Path) -> dict[str, gm.Store]:
    made = {name: tiny_store(folder / name, random_documents(20, seed=i)) for i, name in enumerate(("web", "code"))}
    for store in made.values():
        gm.index(store, seq_len=8)
    return made


def _plans(folder: Path) -> list[gm.Plan]:
    stores = _stores(folder)
    weights = {"web": "0.7", "code": "0.3"}
    phases = [gm.Phase(3, seq_len=8, batch_size=2), gm.Phase(5, weights={"web": "1"}, restart=True)]
    rich = gm.PlanOptions(
        unit=32, block=64, weights_in="tokens", max_epochs={"web": 9, "code": 90}, shards={"web": 1}, phases=phases,
        skip=[(1, 2)],
    )  # fmt: skip
    one = {"web": stores["web"]}
    validation = gm.PlanOptions(cut="pad", shuffle=False, drop_last=False)
    return [
        gm.Plan(stores, weights, seq_len=16, batch_size=4, seed=1, steps=9, options=rich),
        gm.Plan(stores, weights, seq_len=8, batch_size=4),
        gm.Plan(stores, seq_len=8, batch_size=4, options=gm.PlanOptions(cut="pack")),
        gm.Plan(one, seq_len=8, batch_size=4, options=validation),
        gm.Plan(one, seq_len=8, batch_size=4, options=gm.PlanOptions(cut="window")),
    ]


def seeds() -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        values = [json.loads(plan.to_json()) for plan in _plans(Path(folder))]
    for value in values:
        del value["sum"]
        for name, pin in value["sources"].items():
            pin["path"] = [f"stores/{name}/part-{i}.bin" for i in range(2)]
    first = values[0]
    found = [{**first, "weights": {"web": "1e999999999"}}, {**first, "seed": None}, {**first, "options": None},
             {**first, "sources": {"web": {**first["sources"]["web"], "path": []}}},
             {**first, "sources": {"web": None}}, {**first, "batch_size": 10**30}]  # fmt: skip
    texts = [json.dumps(value).encode() for value in (*values, *found)]
    return [*texts, texts[0].replace(b'"seed": 1', b'"seed": NaN')]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    good = seeds[:5]
    return change_values(rng, good) if rng.random() < 0.85 else change_bytes(rng, seeds)


def attempt(data: bytes, folder: Path) -> None:
    if not (folder / "stores").exists():
        _stores(folder / "stores")
    path = folder / "plan.json"
    path.write_bytes(data)
    plan = gm.load_plan(path)
    assert gm.Plan.from_json(plan.to_json(), {s.name: s.store for s in plan.sources}).fingerprint == plan.fingerprint
    plan.forecast(10 if plan.total_steps is None else min(10, plan.total_steps))
    step = plan.skips.next_served(0)
    if plan.total_steps is not None and step >= plan.total_steps:
        return
    segment = plan.segment(step)
    if segment.batch_size * segment.seq_len <= MOST_TOKENS:
        batch = gm.Loader(plan, threads=0).batch(step)
        assert batch["input_ids"].shape == (segment.batch_size, segment.seq_len)
        assert batch["input_ids"].max() <= max(256, *(source.store.eos or 0 for source in plan.sources))
