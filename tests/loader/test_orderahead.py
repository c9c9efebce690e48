"""Samples of coming steps are the plan's, however many are asked for and in whatever steps."""

import numpy as np
import pytest

import gristmill as gm
from gristmill.loader.orderahead import OrderAhead
from gristmill.testing import random_documents, tiny_store


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    store = tiny_store(tmp_path_factory.mktemp("order"), random_documents(300))
    return gm.Plan({"web": store}, seq_len=16, batch_size=4, steps=5000)


@pytest.mark.parametrize("steps", [range(7, 8), range(40), range(2040, 2060), range(4990, 5000), range(3, 4000)])
@pytest.mark.parametrize("every", [1, 3])
def test_samples_are_those_of_each_step(plan, steps, every):
    wanted = steps[::every]
    expected = np.concatenate([plan.samples(step) for step in wanted])
    assert np.array_equal(OrderAhead(plan).samples(wanted), expected)


def test_only_the_last_few_blocks_are_kept(plan):
    order = OrderAhead(plan)
    for start in range(0, 4900, 50):
        order.samples(range(start, start + 50))
    assert len(order._blocks) <= 4
