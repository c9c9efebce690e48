"""permute is a bijection with an inverse, for every size and key."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.order.permute import permute, unpermute

KEYS = st.integers(0, 2**64 - 1)


@given(n=st.integers(1, 3000), key=KEYS)
def test_permute_is_a_bijection(n, key):
    places = permute(np.arange(n), n, key)
    assert np.array_equal(np.sort(places), np.arange(n))


@given(n=st.integers(1, 2**62), key=KEYS, data=st.data())
def test_unpermute_inverts_permute_at_any_scale(n, key, data):
    indices = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20)), dtype=np.int64)
    places = permute(indices, n, key)
    assert ((places >= 0) & (places < n)).all()
    assert np.array_equal(unpermute(places, n, key), indices)


@given(n=st.integers(1, 500), keys=st.lists(KEYS, min_size=1, max_size=5))
def test_one_key_an_index_equals_one_call_a_key(n, keys):
    index = np.arange(n)
    together = permute(np.tile(index, len(keys)), n, np.repeat(np.array(keys, dtype=np.uint64), n))
    assert np.array_equal(together, np.concatenate([permute(index, n, key) for key in keys]))


@given(n=st.integers(1, 1000), key=KEYS, index=st.data())
def test_a_single_index_equals_its_place_among_many(n, key, index):
    i = index.draw(st.integers(0, n - 1))
    assert int(permute(i, n, key)) == int(permute(np.arange(n), n, key)[i])


def test_every_order_of_four_is_about_equally_likely():
    orders = [tuple(permute(np.arange(4), 4, key).tolist()) for key in range(12_000)]
    counts = np.array([orders.count(order) for order in set(orders)])
    chi_square = float(((counts - 500) ** 2 / 500).sum())
    assert len(counts) == 24
    assert chi_square < 49.7  # 23 degrees of freedom, p = 0.001


def test_neighbours_are_sent_far_apart():
    n = 1_000_003
    places = permute(np.arange(10_000), n, 7)
    assert abs(float(np.abs(np.diff(places)).mean()) / n - 1 / 3) < 0.01  # the mean distance of two random places


def test_sizes_and_indices_out_of_range_are_refused():
    for indices, n in (([0], 0), ([5], 5), ([-1], 5), ([0], 2**62 + 1)):
        try:
            permute(indices, n, 0)
        except ValueError:
            continue
        raise AssertionError(f"permute({indices}, {n}) was accepted")
