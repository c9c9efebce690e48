"""The compiled permutation is the one that NumPy computes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.order import permute as module
from gristmill.order.locality import Interleaving
from gristmill.order.permute import permute, unpermute, use_compiled

KEYS = st.integers(0, 2**64 - 1)


@given(n=st.integers(1, 2**62), keys=st.lists(KEYS, min_size=1, max_size=30), data=st.data())
def test_the_compiled_permutation_gives_the_same_numbers(n, keys, data):
    indices = np.array([data.draw(st.integers(0, n - 1)) for _ in keys], dtype=np.int64)
    results = []
    for prepare in (lambda: setattr(module, "_compiled", None), use_compiled):
        prepare()
        many = np.array(keys, dtype=np.uint64)
        results.append([f(indices, n, key).tolist() for f in (permute, unpermute) for key in (keys[0], many)])
    assert results[0] == results[1]


@given(units=st.integers(1, 2000), block=st.integers(1, 300), window=st.integers(1, 200), key=KEYS)
def test_the_compiled_interleaving_takes_the_same_units(units, block, window, key):
    order, places = Interleaving(units, block, window), np.arange(units)
    module._compiled = None
    known = order.units_at(key, places)
    use_compiled()
    some = places[::-3]
    assert np.array_equal(order.units_at(key, places), known) and np.array_equal(order.units_at(key, some), known[some])
