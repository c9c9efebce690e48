"""Loader and model agree on every token of random plans: cuts, mixes, phases, exclusions, skips, ranks."""

from __future__ import annotations

import json
import random
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.testing import EOS, random_documents, tiny_store

sys.path.append(str(Path(__file__).parent))
from batches_by_definition import Corpus, Era, Model

KEYS = ("labels", "doc_ids")
NAMES = ("small", "middle", "large")
LENGTHS = (8, 16, 32)
CUTS = ("chunk", "pack", "pad", "window")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[gm.Store, Corpus]]:
    made = {}
    for i, (name, count) in enumerate(zip(NAMES, (9, 40, 90), strict=True)):
        documents = random_documents(count, seed=50 + i)
        store = tiny_store(tmp_path_factory.mktemp(name), documents, shards=1 + i)
        for seq_len in LENGTHS:
            gm.index(store, seq_len=seq_len)
        parts = [documents[count * k // (1 + i) : count * (k + 1) // (1 + i)] for k in range(1 + i)]
        made[name] = (store, Corpus(name, [[[*document, EOS] for document in part] for part in parts], EOS))
    return made


def shares(rng: random.Random, names: list[str]) -> dict[str, Fraction]:
    parts = [rng.randint(0, 9) for _ in names]
    parts[rng.randrange(len(parts))] += 1
    return {name: Fraction(part, sum(parts)) for name, part in zip(names, parts, strict=True)}


def eras(rng: random.Random, names: list[str], cut: str, steps: int) -> list[Era]:
    made = [Era(0, shares(rng, names), rng.choice(LENGTHS), rng.choice((2, 4, 6)))]
    for start in sorted(rng.sample(range(1, steps), rng.randint(0, 3))):
        last = made[-1]
        weights = rng.choice((last.weights, shares(rng, names)))
        length, size = rng.choice((last.seq_len, *LENGTHS)), rng.choice((last.batch_size, 2, 4))
        made.append(Era(start, weights, length, size, restart=cut != "chunk"))
    return made


def plan_of(stores: dict[str, gm.Store], model: Model, steps: int, **options: Any) -> gm.Plan:
    first, *later = model.eras
    phases = [
        gm.Phase(era.from_step, weights={k: str(v) for k, v in era.weights.items()}, seq_len=era.seq_len,
                 batch_size=era.batch_size, restart=era.restart) for era in later
    ]  # fmt: skip
    made = gm.PlanOptions(cut=model.cut, block=model.block, unit=model.unit if model.cut == "chunk" else None,
                          shuffle=model.shuffle, phases=phases, **options)  # fmt: skip
    return gm.Plan(stores, {k: str(v) for k, v in first.weights.items()}, seq_len=first.seq_len,
                   batch_size=first.batch_size, seed=model.seed, steps=steps, options=made)  # fmt: skip


def check_plan(corpora: dict[str, tuple[gm.Store, Corpus]], seed: int) -> int:
    """One random plan; the tokens that were compared."""
    rng = random.Random(f"plan {seed}")
    names, cut, steps = rng.sample(NAMES, rng.randint(1, 3)), rng.choice(CUTS), rng.randint(5, 14)
    chosen = [corpora[name][1] for name in names]
    model = Model(chosen, eras(rng, names, cut, steps), cut, rng.randrange(2**40), 32, rng.choice((64, 256)),
                  shuffle=rng.random() < 0.8)  # fmt: skip
    exclude = []
    for _ in range(rng.choice((0, 0, 2))):
        k = rng.randrange(len(names))
        number, since, mode = (
            rng.randrange(len(chosen[k].documents)),
            rng.randrange(steps),
            rng.choice(("replace", "loss")),
        )
        document = corpora[names[k]][0].document_id(number)
        exclude.append(gm.Exclude(document, names[k], since, mode))
        model.exclude.append((k, *chosen[k].spans[number], since, mode == "replace"))
    first = rng.randrange(steps)
    skip = [(first, rng.randint(first + 1, steps))] if rng.random() < 0.3 and first else []
    plan = plan_of({name: corpora[name][0] for name in names}, model, steps, exclude=exclude, skip=skip)
    skipped = {step for start, end in skip for step in range(start, end)}
    return _compare(plan, model, [step for step in range(steps) if step not in skipped], rng.choice((1, 2)), steps)


def _compare(plan: gm.Plan, model: Model, served: list[int], world: int, steps: int) -> int:
    rows, tokens = model.rows(steps), 0
    for rank in range(world):
        batches = list(gm.Loader(plan, rank, world, keys=KEYS, threads=rank))
        assert len(batches) == len(served)
        for step, batch in zip(served, batches, strict=True):
            for own, taken in enumerate(rows[step][rank::world]):
                where = f"step {step}, row {rank + own * world} of {json.dumps(json.loads(plan.to_json())['options'])}"
                assert batch["sample_ids"][own].tolist() == list(taken[:3]), where
                for key, expected in model.row(step, taken).items():
                    if key in batch:
                        assert batch[key][own].tolist() == expected, f"{key} of {where}"
                tokens += batch["input_ids"].shape[1]
    return tokens


def test_every_token_of_random_plans_is_where_the_definition_has_it(
    corpora: dict[str, tuple[gm.Store, Corpus]], soak: bool, record: Path | None
) -> None:
    plans = 10_000 if soak else 20
    tokens = sum(check_plan(corpora, seed) for seed in range(plans))
    if record:
        (record / "batches.json").write_text(json.dumps({"plans": plans, "tokens": tokens}) + "\n")
    assert tokens > 200 * plans
