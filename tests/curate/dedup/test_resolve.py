"""Who goes among near duplicates: a document with an edge to one that stays, in the order of the keep rule."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.curate.dedup.resolve import settle

# Two units; and a document of an index, which is earlier than all.
DOCS = [-1 << 62, *range(5), *(7 << 32 | row for row in range(4))]


def one_by_one(edges: set[tuple[int, int]]) -> list[int]:
    """Who goes if documents are asked in the order of the keep rule, which here is that of their places."""
    gone: set[int] = set()
    for later, earlier in sorted((later, earlier) for earlier, later in edges):
        if earlier not in gone:
            gone.add(later)
    return sorted(gone)


@given(edges=st.sets(st.tuples(st.integers(0, 9), st.integers(1, 9)).filter(lambda edge: edge[0] < edge[1])),
       seed=st.randoms(use_true_random=False))  # fmt: skip
def test_edges_in_any_order_are_settled_as_one_by_one(edges: set[tuple[int, int]], seed: object) -> None:
    shuffled = sorted(edges)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    earlier, later = (np.array([DOCS[edge[i]] for edge in shuffled], np.int64) for i in (0, 1))
    assert settle(earlier, later).tolist() == [DOCS[place] for place in one_by_one(edges)]


def test_every_second_of_a_chain_goes_whatever_its_length() -> None:
    chain = np.arange(1_000_000)
    assert np.array_equal(settle(chain[:-1], chain[1:]), chain[1::2])
    assert np.array_equal(settle(chain[::-1][:-1], chain[::-1][1:]), chain[::-1][1::2][::-1])


def test_no_edges_drop_nobody() -> None:
    assert settle(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
