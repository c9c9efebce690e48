from __future__ import annotations

import numpy as np

from gristmill.core.held_out import is_val, val_places


def test_val_is_a_share_of_the_hashes_and_grows_with_it() -> None:
    hashes = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 100_000)
    small, large = is_val(hashes, 0.01, 3), is_val(hashes, 0.1, 3)
    assert 900 < small.sum() < 1100 and 9_700 < large.sum() < 10_300 and large[small].all()
    assert (val_places(hashes, 3) != val_places(hashes, 4)).all() and not is_val(hashes, 0.0, 3).any()
