"""When a block is read next is what the plan's own steps say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

import gristmill as gm
from gristmill.loader.demand import Demand
from gristmill.loader.nextuse import NextUse
from gristmill.order.mix import Mix
from gristmill.places.eviction import READ
from gristmill.streams.stores import StoreRows

Make = Callable[..., Path]
BLOCK, WINDOW = 64, 4


def test_blocks_wait_as_long_as_the_steps_leave_them_alone(tmp_path: Path, make_store: Make) -> None:
    store = gm.open(make_store(tmp_path / "s", [[i % 900] * 999 for i in range(200)], tokens_per_shard=70_000))
    near = gm.PlanOptions(locality=gm.Locality(block=BLOCK, window=WINDOW))
    plan = gm.Plan({"a": store, "b": store}, {"a": 0.75, "b": 0.25}, seq_len=32, batch_size=8, steps=700, options=near)
    demand, tokens = Demand(plan, labels=False), BLOCK * 32
    bases = np.array([0, store.num_tokens])
    used: dict[tuple[int, int], list[int]] = {}
    for step in range(700):
        for source, _, sample in plan.samples(step).tolist():
            used.setdefault((source, sample // BLOCK), []).append(step)
    assert len(demand.grid.starts) == 2 * store.num_shards + 1
    waits = NextUse(plan, bases)
    for step in (0, 100, 350):
        waits.step = step
        for (source, block), steps in used.items():
            found = float(waits(np.array([bases[source] + block * tokens + tokens // 2]))[0])
            coming = [each - step for each in steps if each >= step]
            within = BLOCK * WINDOW / 8 / (0.75 if source == 0 else 0.25)
            if not coming:
                assert found == READ or found <= within
            elif found < READ:  # else this epoch is over for it, and its next use is in the next one
                assert abs(found - coming[0]) <= within


def test_in_a_mix_with_streams_blocks_wait_by_the_steps_of_the_mix(tmp_path: Path, make_store: Make) -> None:
    store = gm.open(make_store(tmp_path / "s", [[i % 900] * 999 for i in range(200)], tokens_per_shard=70_000))
    near = gm.PlanOptions(locality=gm.Locality(block=BLOCK, window=WINDOW))
    plan = gm.Plan({"a": store, "b": store}, seq_len=32, batch_size=1, options=near)
    mix, rows, tokens = Mix((Fraction(1, 2), Fraction(3, 8), Fraction(1, 8)), 4096, 5), 16, BLOCK * 32
    picked = StoreRows(plan, mix, rows, ("input_ids",), None, None).picked(*mix.labels(np.arange(700 * rows)))
    used: dict[tuple[int, int], list[int]] = {}
    for row, (source, epoch, sample) in zip(picked.rows.tolist(), picked.samples.tolist(), strict=True):
        if epoch == 0:
            used.setdefault((source, sample // BLOCK), []).append(row // rows)
    waits, bases = NextUse(plan, np.array([0, store.num_tokens])), (0, store.num_tokens)
    waits.mixed = replace(plan.segments[0], mix=mix, batch_size=rows)
    for step in (0, 100, 350):
        waits.step = step
        for (source, block), steps in used.items():
            found = float(waits(np.array([bases[source] + block * tokens + tokens // 2]))[0])
            coming = [each - step for each in steps if each >= step]
            if coming and found < READ:
                assert abs(found - coming[0]) <= BLOCK * WINDOW / rows / (3 / 8 if source == 0 else 1 / 8)


def test_without_locality_nothing_is_known(tmp_path: Path, make_store: Make) -> None:
    store = gm.open(make_store(tmp_path / "s"))
    waits = NextUse(gm.Plan(store, seq_len=8, batch_size=4), np.array([0]))
    assert np.isnan(waits(np.array([0, 100]))).all()
