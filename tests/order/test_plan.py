"""What a plan accepts, what it refuses, and how it ends."""

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import random_documents, tiny_store


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    sizes = {"web": 200, "code": 40}
    return {name: tiny_store(folder / name, random_documents(n, seed=n), shards=2) for name, n in sizes.items()}


def plan_of(stores, weights=None, options=None, **changes):
    arguments = {"seq_len": 16, "batch_size": 4, "seed": 0, "steps": 60, **changes}
    return gm.Plan(stores, weights or {"web": 0.7, "code": 0.3}, options=gm.PlanOptions(**(options or {})), **arguments)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"web": 0.7, "code": 0.4}, "add up to 1.1, not 1"),
        ({"web": 0.7}, "add up to 0.7"),
        ({"web": 1.5, "code": -0.5}, "below zero"),
        ({"web": "much", "code": 0.3}, "not a number"),
        ({"web": 0.7, "coed": 0.3}, "did you mean 'code'"),
        ({"web": 1}, "say nothing of source 'code'"),
    ],
)
def test_weights_that_cannot_be_are_refused(stores, weights, message):
    with pytest.raises(gm.ConfigError, match=message):
        plan_of(stores, weights)


def test_weights_are_exact_rationals_of_their_text(stores):
    plan = plan_of(stores, {"web": 0.1, "code": 0.9}, options={"block": 10}, batch_size=10)
    for step in range(20):
        assert np.bincount(plan.samples(step)[:, 0]).tolist() == [1, 9]


def test_weights_within_a_millionth_of_one_are_scaled(stores):
    third = {"web": 0.333333, "code": 0.666666}
    assert sum(plan_of(stores, third).segments[0].mix.weights) == 1


def test_without_weights_sources_are_mixed_by_size(stores):
    plan = gm.Plan(stores, seq_len=16, batch_size=4, steps=10)
    sizes = [lane.order.samples for lane in plan.segments[0].lanes]
    assert [float(weight) for weight in plan.segments[0].mix.weights] == [size / sum(sizes) for size in sizes]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seq_len": 0}, "seq_len must be a whole number above 0"),
        ({"batch_size": 2.5}, "batch_size must be"),
        ({"seed": "zero"}, "seed must be"),
        ({"seq_len": 10**6}, "too few for one sequence"),
        ({"options": {"cut": "chunks"}}, "did you mean 'chunk'"),
        ({"options": {"weights_in": "words"}}, "weights_in"),
        ({"options": {"block": 2}}, "cannot hold a weight"),
        ({"options": {"unit": 24}}, "does not divide"),
        ({"options": {"phases": [{"from_step": 60}]}}, "plan ends at 60"),
        ({"options": {"phases": [{"from_step": 0, "batch_size": 2}]}}, "step 1 or later"),
        ({"options": {"phases": [{"from_step": 5, "batchsize": 2}]}}, "did you mean 'batch_size'"),
        ({"options": {"phases": [{"from_step": 5}, {"from_step": 5}]}}, "same step"),
        ({"options": {"phases": [{"from_step": 5, "seq_len": 32}], "unit": 16}}, "restart=True"),
        ({"options": {"phases": [{"from_step": 5, "seq_len": 8}], "cut": "pad"}}, "restart=True"),
        ({"options": {"skip": [(5, 5)]}}, "empty or begins below 0"),
        ({"options": {"exclude": ["no-such-doc"]}}, "in none of the sources"),
        ({"options": {"exclude": [{"doc": "part-0:1", "source": "wb"}]}}, "did you mean 'web'"),
        ({"options": {"exclude": [{"doc": "part-0:1", "mode": "losses"}]}}, "did you mean 'loss'"),
        ({"options": {"drop_last": False}}, "one pass over a single source"),
        ({"options": {"max_epochs": {"cod": 1}}}, "did you mean 'code'"),
        ({"options": {"max_epochs": 1}, "steps": None}, "max_epochs needs steps"),
        ({"options": {"shards": {"web": 3}}}, "which has 2"),
        ({"options": {"cut": "pack"}}, "gristmill index .* --seq-len 16"),
    ],
)
def test_what_cannot_be_planned_is_refused(stores, changes, message):
    with pytest.raises(gm.ConfigError, match=message):
        plan_of(stores, **changes)


def test_a_plan_without_sources_is_refused():
    with pytest.raises(gm.ConfigError, match="sources must be"):
        gm.Plan({}, seq_len=8, batch_size=1)


def test_a_source_that_would_run_out_is_refused_before_training_with_its_step(stores):
    with pytest.raises(
        gm.ConfigError, match=r"'code' would be read .* times, max_epochs allows 1. It runs out at step"
    ):
        plan_of(stores, {"web": 0.2, "code": 0.8}, options={"max_epochs": {"code": 1}})
    samples = stores["code"].num_tokens // 16
    allowed = plan_of(stores, {"web": 0, "code": 1}, options={"max_epochs": 1}, batch_size=1, steps=samples)
    assert allowed.forecast().sources[1].epochs == 1
    with pytest.raises(gm.ConfigError, match=f"runs out at step {samples}"):
        plan_of(stores, {"web": 0, "code": 1}, options={"max_epochs": 1}, batch_size=1, steps=samples + 1)


def test_one_source_without_steps_is_one_pass(stores):
    plan = gm.Plan({"web": stores["web"]}, seq_len=16, batch_size=4)
    assert len(plan) == stores["web"].num_tokens // 16 // 4
    with pytest.raises(gm.ConfigError, match="outside the plan"):
        plan.samples(len(plan))


def test_the_same_plan_with_another_end_has_the_same_batches(stores):
    phases = [gm.Phase(from_step=30, weights={"web": 0.2, "code": 0.8})]
    plan = plan_of(stores, options={"phases": phases, "skip": [gm.Skip(5, 9)]})
    longer, shorter = plan.with_steps(200), plan.with_steps(40)
    assert (longer.total_steps, shorter.total_steps) == (200, 40)
    for step in (*range(5), *range(9, 40)):
        assert (longer.samples(step) == plan.samples(step)).all() and (
            shorter.samples(step) == plan.samples(step)
        ).all()
    assert longer.prefix_fingerprint(60) == plan.prefix_fingerprint(60)


def test_a_source_smaller_than_a_batch_is_refused(stores):
    with pytest.raises(gm.ConfigError, match="fewer than a batch"):
        gm.Plan({"web": stores["web"]}, seq_len=16, batch_size=10**6)


def test_tokens_that_fill_no_sequence_are_reported(stores):
    plan = gm.Plan({"web": stores["web"]}, seq_len=16, batch_size=4)
    assert plan.forecast().sources[0].unserved_tokens == stores["web"].num_tokens % 16


def test_weights_in_tokens_give_equal_tokens_where_samples_differ_in_size(stores):
    options = {"cut": "pad", "weights_in": "tokens"}
    plan = plan_of(stores, {"web": 0.5, "code": 0.5}, options=options, seq_len=64, steps=2000)
    tokens = np.zeros(2)
    lengths = [np.minimum(np.concatenate([s.document_lengths(i) for i in range(2)]), 64) for s in stores.values()]
    for source, _, sample in plan.samples_of_steps(0, 2000).tolist():
        tokens[source] += lengths[source][sample]
    assert abs(tokens[0] / tokens.sum() - 0.5) < 0.01
    assert abs(float(plan.segments[0].mix.weights[0]) - 0.5) > 0.005


def test_weights_in_documents_under_pad_are_weights_in_samples(stores):
    made = [plan_of(stores, options={"cut": "pad", "weights_in": unit}) for unit in ("documents", "samples")]
    assert made[0].segments[0].mix.weights == made[1].segments[0].mix.weights


def test_json_over_another_store_is_refused(stores, tmp_path):
    text = plan_of(stores).to_json()
    with pytest.raises(gm.ConfigError, match="content differs"):
        gm.Plan.from_json(text, {**stores, "web": tiny_store(tmp_path, random_documents(200, seed=1))})
    with pytest.raises(gm.ConfigError, match="given were web"):
        gm.Plan.from_json(text, {"web": stores["web"]})


def test_the_fingerprint_knows_no_paths_but_everything_else(stores, tmp_path):
    sizes = {"web": 200, "code": 40}
    moved = {name: tiny_store(tmp_path / name, random_documents(n, seed=n), shards=2) for name, n in sizes.items()}
    original = plan_of(stores).fingerprint
    assert plan_of(moved).fingerprint == original
    variants = [
        plan_of(stores, seed=1),
        plan_of(stores, steps=61),
        plan_of(stores, seq_len=8),
        plan_of(stores, options={"shuffle": False}),
        plan_of(stores, options={"skip": [(1, 2)]}),
        plan_of(stores, options={"exclude": ["part-0:1"]}),
        plan_of(stores, options={"exclude": [gm.Exclude("part-0:1", mode="loss")]}),
    ]
    assert len({original, *(plan.fingerprint for plan in variants)}) == 8


def test_epochs_are_shuffled_differently_and_seeds_too(stores):
    plan = gm.Plan({"code": stores["code"]}, seq_len=16, batch_size=1, steps=1000)
    n = plan.segments[0].lanes[0].order.samples
    first, second = plan.samples_of_steps(0, n)[:, 2], plan.samples_of_steps(n, n)[:, 2]
    assert (first != second).mean() > 0.5
    other = gm.Plan({"code": stores["code"]}, seq_len=16, batch_size=1, seed=1, steps=1000)
    assert (first != other.samples_of_steps(0, n)[:, 2]).mean() > 0.5
