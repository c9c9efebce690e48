"""Pinned values: the order of a run must never change silently between versions."""

import numpy as np
import pytest

from gristmill.core.hashing import derive_key
from gristmill.order.permute import permute

GOLDEN = {
    (2, 1): [1, 0],
    (10, 0): [7, 4, 3, 9, 8, 1, 5, 6],
    (10, 1): [6, 1, 2, 4, 7, 8, 3, 0],
    (1000, 12345): [650, 192, 803, 572, 472, 452, 37, 791],
    (2**40, 7): [417590090839, 587368797662, 643477279943, 298699426229,
                 910819150368, 845077968677, 919413974020, 505985859225],
    (10**12, 2**64 - 1): [63963643063, 736616684239, 980261937718, 751963723172,
                          123646054035, 594378194199, 667605433849, 79942091610],
}  # fmt: skip


@pytest.mark.parametrize(("n", "key"), GOLDEN)
def test_permute_gives_its_pinned_values(n, key):
    assert permute(np.arange(min(n, 8)), n, key).tolist() == GOLDEN[n, key]


def test_keys_are_derived_as_ever():
    assert derive_key(0, "order", "web", 3) == 6732353706744967532
