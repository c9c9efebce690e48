"""A plan in passes: what a second epoch holds, and resuming inside any of them."""

import copy
import pickle

import pytest
import torch

import gristmill as gm
from gristmill.adapters.passes import PassLoader, extended
from gristmill.testing import random_documents, tiny_store

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("passes"), random_documents(40), shards=2)


@pytest.fixture
def make_plan(store):
    def make(seed=1, steps=None, **options):
        chosen = gm.PlanOptions(**options)
        return gm.Plan({"web": store}, seq_len=16, batch_size=4, seed=seed, steps=steps, options=chosen)

    return make


def ids(batches):
    return [batch["sample_ids"].tolist() for batch in batches]


def test_later_passes_go_on_in_a_new_order(make_plan):
    plan = make_plan()
    loader = PassLoader(plan, threads=0)
    passes = [ids(loader) for _ in range(3)]
    assert [len(each) for each in passes] == [len(plan)] * 3 == [len(loader)] * 3
    assert passes[0] == ids(gm.Loader(plan, threads=0))
    assert [*passes[0], *passes[1], *passes[2]] == ids(gm.Loader(extended(plan, 3 * len(plan)), threads=0))
    samples = [sorted(row[1:] for batch in each for row in batch) for each in passes]
    assert samples[0] != samples[1], "the second pass has samples of the next epoch"


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize(
    "options", [{}, {"skip": [gm.Skip(from_step=3, to_step=5)]}, {"skip": [gm.Skip(from_step=8, to_step=11)]}]
)
def test_a_state_resumes_inside_any_pass_and_ends_with_it(make_plan, threads, options):
    plan = make_plan(steps=9, **options)
    loader, taken, whole = PassLoader(plan, threads=threads), [], []
    for _ in range(3):
        for batch in loader:
            whole += ids([batch])
            taken.append(copy.deepcopy(loader.state_dict()))
    assert len(whole) == 3 * len(plan)
    for batches, state in enumerate(taken[: 2 * len(plan)], start=1):
        resumed = PassLoader(plan, threads=threads)
        resumed.load_state_dict(state)
        end = (batches // len(plan) + 1) * len(plan)
        assert ids(resumed) == whole[batches:end]
        assert ids(resumed)[:3] == whole[end : end + 3] or end == len(whole)


def test_a_loop_that_was_broken_off_goes_on(make_plan):
    plan = make_plan(steps=6)
    loader = PassLoader(plan, threads=0)
    for batch in loader:
        first = ids([batch])
        break
    assert first + ids(pickle.loads(pickle.dumps(loader))) == first + ids(loader) == ids(gm.Loader(plan, threads=0))


def test_a_state_loaded_inside_the_loop_takes_effect_at_once(make_plan):
    plan = make_plan(steps=5)
    far = PassLoader(plan, threads=0)
    whole = [ids(far), ids(far), ids(far)]
    loader = PassLoader(plan, threads=0)
    reading = iter(loader)
    assert ids([next(reading)]) == whole[0][:1]
    far.seek(7)
    loader.load_state_dict(far.state_dict())
    assert ids(reading) == whole[1][2:]


def test_an_endless_plan_is_one_pass(store):
    stores = {"a": store, "b": store}
    loader = PassLoader(gm.Plan(stores, seq_len=16, batch_size=4), threads=0)
    with pytest.raises(TypeError, match="endless"):
        len(loader)
    found = ids(batch for _, batch in zip(range(100), loader, strict=False))
    loader.load_state_dict(loader.state_dict())
    assert len(found) == 100 and loader.step == 100


def test_what_cannot_go_on_is_refused(make_plan):
    short = PassLoader(make_plan(shuffle=False, drop_last=False), threads=0)
    assert len(ids(short)) == len(short)
    with pytest.raises(gm.ConfigError, match="single pass"):
        next(iter(short))
    once = PassLoader(make_plan(steps=len(make_plan()), max_epochs=1), threads=0)
    assert len(ids(once)) == len(once)
    with pytest.raises(gm.ConfigError, match="max_epochs"):
        next(iter(once))


def test_a_state_of_another_plan_is_refused(make_plan):
    other = PassLoader(make_plan(seed=2, steps=5), threads=0)
    ids(other)
    next(iter(other))
    loader = PassLoader(make_plan(steps=5), threads=0)
    with pytest.raises(gm.StateError, match=r"seed \(was 2, is 1\)"):
        loader.load_state_dict(other.state_dict())
    with pytest.raises(gm.StateError, match="no state of a Gristmill loader"):
        loader.load_state_dict([])
