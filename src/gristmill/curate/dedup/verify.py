"""Verification: the real Jaccard similarity of each candidate pair, from shingle sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.curate.dedup.sets import Sets


def verified(pairs: pa.Table, sets_of: Callable[[int], Sets], threshold: float) -> pa.Table:
    """The pairs (earlier, later) at or over the threshold, with their similarity; `sets_of` gives a unit's sets."""
    from gristmill.curate.dedup import pair_kernels

    docs = np.concatenate([pairs["earlier"].to_numpy(), pairs["later"].to_numpy()])
    # The sets stay in memory until the pairs are compared.
    addresses, sizes, held = _locate(docs, sets_of)
    similarity = np.empty(len(pairs), np.float64)
    pair_kernels.similarities(addresses.reshape(2, -1), sizes.reshape(2, -1), threshold, similarity)
    del held
    return pairs.append_column("similarity", pa.array(similarity)).filter(pa.array(similarity >= threshold))


def _locate(docs: Ints, sets_of: Callable[[int], Sets]) -> tuple[Ints, Ints, list[Sets]]:
    """Addresses and sizes of the sets of `docs`; they hold while the returned sets are held."""
    addresses, sizes = np.empty_like(docs), np.empty_like(docs)
    held = []
    for unit, rows in _by_unit(docs):
        held.append(sets_of(unit))
        addresses[rows], sizes[rows] = held[-1].locate(docs[rows])
    return addresses, sizes, held


def _by_unit(docs: Ints) -> Iterator[tuple[int, Ints]]:
    """The rows of each unit."""
    order = np.argsort(docs, kind="stable")
    units, begins = np.unique(docs[order] >> 32, return_index=True)
    yield from zip(units.tolist(), np.split(order, begins[1:]), strict=True)
