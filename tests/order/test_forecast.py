"""What a plan will have done, by arithmetic."""

import numpy as np
import pytest

import gristmill as gm
from gristmill.order.forecast import epoch_starts
from gristmill.testing import random_documents, tiny_store


@pytest.fixture
def stores(tmp_path):
    return {name: tiny_store(tmp_path / name, random_documents(n, seed=n)) for name, n in (("web", 80), ("code", 20))}


def test_shares_add_up_and_samples_are_those_of_the_steps(stores):
    plan = gm.Plan(stores, {"web": 0.75, "code": 0.25}, seq_len=16, batch_size=4, steps=50)
    found = plan.forecast(30)
    counted = np.bincount(np.concatenate([plan.samples(step)[:, 0] for step in range(30)]))
    assert [source.samples for source in found.sources] == counted.tolist()
    assert sum(source.share for source in found.sources) == 1 and found.tokens == 30 * 4 * 16
    assert found.to_dict()["sources"][0]["name"] == "web"


def test_epochs_begin_where_their_first_sample_is_served(stores):
    plan = gm.Plan({"code": stores["code"]}, seq_len=16, batch_size=4, steps=40)
    for epoch, step in enumerate(epoch_starts(plan, 0, 3, 40), 1):
        assert plan.samples(step)[:, 1].max() == epoch
        assert plan.samples(step - 1)[:, 1].max() == epoch - 1


def test_skipped_steps_are_consumed_and_not_served(stores):
    plan = gm.Plan(stores["web"], seq_len=16, batch_size=4, steps=9, options={"skip": [(2, 5)]})
    assert (plan.forecast().step, plan.forecast().served_steps, plan.forecast().tokens) == (9, 6, 6 * 4 * 16)


def test_steps_beyond_the_plan_and_an_endless_one_are_refused(stores):
    with pytest.raises(gm.ConfigError, match="cannot be forecast at step 51"):
        gm.Plan(stores["web"], seq_len=16, batch_size=4, steps=50).forecast(51)
    with pytest.raises(gm.ConfigError, match=r"say forecast\(step\)"):
        gm.Plan(stores, seq_len=16, batch_size=4).forecast()
