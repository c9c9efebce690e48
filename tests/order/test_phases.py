"""Changes at a step: cursors carry over, nothing is repeated, and what is left unread is bounded and reported."""

import numpy as np
import pytest

import gristmill as gm
from gristmill.order.epochs import UNITS_PER_BLOCK
from gristmill.testing import assert_resumes_anywhere, random_documents, tiny_store


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phases")
    sizes = {"web": 900, "code": 300}
    return {name: tiny_store(folder / name, random_documents(n, seed=n), shards=3) for name, n in sizes.items()}


def tokens_seen(plan, source, steps):
    """How often each token of a source is served in the first steps."""
    seen = np.zeros(plan.sources[source].store.num_tokens, dtype=int)
    for step in range(steps):
        seq_len = plan.segment(step).seq_len
        for k, _, sample in plan.samples(step).tolist():
            if k == source:
                seen[sample * seq_len : (sample + 1) * seq_len] += 1
    return seen


def test_a_changed_mix_repeats_nothing_and_leaves_nothing_out(stores):
    phases = [gm.Phase(30, weights={"web": 0.2, "code": 0.8}), gm.Phase(50, weights={"web": 0.9, "code": 0.1})]
    plan = gm.Plan(
        stores, {"web": 0.5, "code": 0.5}, seq_len=16, batch_size=4, steps=80, options=gm.PlanOptions(phases=phases)
    )
    for k in range(2):
        assert tokens_seen(plan, k, 80).max() == 1
        assert plan.forecast().sources[k].unread_tokens == 0


def test_a_new_source_begins_at_its_phase(stores):
    options = gm.PlanOptions(phases=[gm.Phase(10, weights={"web": 0.5, "code": 0.5})])
    plan = gm.Plan(stores, {"web": 1}, seq_len=16, batch_size=4, steps=20, options=options)
    assert all((plan.samples(step)[:, 0] == 0).all() for step in range(10))
    alone = gm.Plan({"code": stores["code"]}, seq_len=16, batch_size=1, steps=500)
    taken = [row[2] for step in range(10, 20) for row in plan.samples(step).tolist() if row[0] == 1]
    assert taken == alone.samples_of_steps(0, len(taken))[:, 2].tolist()


@pytest.mark.parametrize("lengths", [(8, 32), (32, 8), (16, 32)])
def test_a_changed_seq_len_repeats_nothing_and_leaves_under_a_block_unread(stores, lengths):
    before, after = lengths
    options = gm.PlanOptions(phases=[gm.Phase(23, seq_len=after)], unit=32)
    plan = gm.Plan({"web": stores["web"]}, seq_len=before, batch_size=4, steps=60, options=options)
    seen = tokens_seen(plan, 0, 60)
    assert seen.max() == 1
    unread = plan.forecast().sources[0].unread_tokens
    assert 0 < unread < UNITS_PER_BLOCK * 32
    assert_resumes_anywhere(plan, at=[0, 22, 23, 24, 40])


def test_after_a_change_the_epoch_still_covers_all_but_the_unread(stores):
    options = gm.PlanOptions(phases=[gm.Phase(23, seq_len=32, batch_size=1)], unit=32)
    plan = gm.Plan({"web": stores["web"]}, seq_len=8, batch_size=4, options=options)
    seen = tokens_seen(plan, 0, len(plan))
    assert seen.max() == 1
    forecast = plan.forecast().sources[0]
    assert (seen == 0).sum() == forecast.unread_tokens + forecast.unserved_tokens


def test_sequences_of_a_unit_are_spread_over_their_block(stores):
    options = gm.PlanOptions(unit=32)
    plan = gm.Plan({"web": stores["web"]}, seq_len=8, batch_size=1, steps=256, options=options)
    units = plan.samples_of_steps(0, 256)[:, 2] // 4
    assert len(np.unique(units)) == UNITS_PER_BLOCK
    assert (np.diff(units) == 0).mean() < 0.1


def test_a_seq_len_above_the_unit_starts_a_new_epoch_when_asked(stores):
    options = gm.PlanOptions(phases=[gm.Phase(10, seq_len=64, restart=True)])
    plan = gm.Plan({"web": stores["web"]}, seq_len=16, batch_size=4, steps=20, options=options)
    assert (plan.samples(9)[:, 1] == 0).all()
    assert (plan.samples(10)[:, 1] == 1).all()
    left = stores["web"].num_tokens // 16 * 16 - 10 * 4 * 16
    assert plan.forecast().sources[0].unread_tokens == left


def test_batch_size_may_grow_at_a_step(stores):
    options = gm.PlanOptions(phases=[gm.Phase(5, batch_size=8)])
    plan = gm.Plan({"web": stores["web"]}, seq_len=16, batch_size=4, steps=10, options=options)
    assert [len(plan.samples(step)) for step in (4, 5)] == [4, 8]
    assert plan.tokens_before(10) == (5 * 4 + 5 * 8) * 16


def test_a_store_that_grew_serves_its_pinned_shards(stores, tmp_path):
    documents = random_documents(300, seed=5)
    store = tiny_store(tmp_path, documents, shards=3)
    paths = [tmp_path / f"part-{i}.bin" for i in range(3)]
    first = gm.open(paths[:2], dtype="uint16", eos=256)
    before = gm.Plan({"web": first}, seq_len=16, batch_size=4)
    after = gm.Plan.from_json(before.to_json(), {"web": store})
    assert after.fingerprint == before.fingerprint
    batches = [gm.Loader(plan, keys=("labels",), threads=0) for plan in (before, after)]
    for one, other in zip(*batches, strict=True):
        assert np.array_equal(one["labels"], other["labels"])


def test_new_shards_enter_at_a_phase_with_a_new_epoch(tmp_path):
    store = tiny_store(tmp_path, random_documents(300, seed=5), shards=3)
    options = gm.PlanOptions(shards={"web": 2}, phases=[gm.Phase(10, shards={"web": 3}, restart=True)])
    plan = gm.Plan({"web": store}, seq_len=16, batch_size=4, steps=100, options=options)
    limit = store.tokens_in(2) // 16
    assert all(plan.samples(step)[:, 2].max() < limit for step in range(10))
    later = plan.samples_of_steps(10, 90)
    assert later[:, 2].max() >= limit
    assert later[:, 1].min() == 1
    with pytest.raises(gm.ConfigError, match="more shards"):
        gm.Plan({"web": store}, seq_len=16, batch_size=4, steps=100,
                options=gm.PlanOptions(shards={"web": 2}, phases=[gm.Phase(10, shards={"web": 3})]))  # fmt: skip
