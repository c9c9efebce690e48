"""The compiled permutation is the one that NumPy computes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.order import permute as module
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
