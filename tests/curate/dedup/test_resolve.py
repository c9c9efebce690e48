"""Who goes among near duplicates: a document with an edge to one that stays, in the order of the keep rule."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gristmill.curate.dedup.resolve import resolve

# Two units, the second of one row less; and a document of an index, which is earlier than all.
DOCS = [-1 << 62, *range(5), *(7 << 32 | row for row in range(4))]
ROWS = {0: 5, 7: 4}
Edge = tuple[int, int, float]


def by_definition(edges: list[Edge]) -> list[tuple[int, int, float]]:
    """The best edge of each later document to an earlier one that has not gone, the first of equals."""
    gone: dict[int, tuple[int, float]] = {}
    for earlier, later, similarity in edges:
        if earlier not in gone and (later not in gone or similarity > gone[later][1]):
            gone[later] = (earlier, similarity)
    return [(doc, *found) for doc, found in gone.items()]


def rows_of(tables: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


@given(edges=st.sets(st.tuples(st.integers(0, 9), st.integers(1, 9))), data=st.data(), size=st.integers(1, 7))
def test_edges_in_batches_of_any_size_are_settled_as_the_definition_says(
    edges: set[tuple[int, int]], data: st.DataObject, size: int
) -> None:
    places = sorted((later, earlier) for earlier, later in edges if earlier < later)
    found = [(DOCS[a], DOCS[b], data.draw(st.sampled_from([0.8, 0.9, 1.0]))) for b, a in places]
    columns = {name: [edge[i] for edge in found] for i, name in enumerate(("earlier", "later", "similarity"))}
    types = pa.schema([("earlier", pa.int64()), ("later", pa.int64()), ("similarity", pa.float64())])
    batches = pa.table(columns, schema=types).to_batches(max_chunksize=size)
    assert rows_of(resolve(batches, ROWS)) == by_definition(found)


def test_without_similarity_the_first_one_that_stays_is_named() -> None:
    edges = pa.record_batch({"earlier": [0, 0, 1, 2], "later": [1, 2, 2, 3]})
    assert rows_of(resolve([edges], {0: 4})) == [(1, 0, None), (2, 0, None)]


def test_no_edges_drop_nobody() -> None:
    assert list(resolve([], {})) == []
