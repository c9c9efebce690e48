"""Which documents are held out for val: those that the hash of their text chooses, so that equal texts go together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints, Mask
from gristmill.core.hashing import derive_key, keyed_array

# The least share that holds anything out.
LEAST_FRACTION = 2.0**-53


def is_val(hashes: Ints, fraction: float, seed: int) -> Mask:
    """Whether documents with these content hashes belong to val: equal texts always fall on the same side."""
    return np.asarray(val_places(hashes, seed) >> np.uint64(11) < np.uint64(int(fraction / LEAST_FRACTION)))


def val_places(hashes: Ints, seed: int) -> npt.NDArray[np.uint64]:
    """The order in which documents with these content hashes are held out: a number of 64 bits each."""
    return keyed_array(hashes, derive_key(seed, "val"))
