"""Who goes by more edges than a task holds: the same as by one task, in few rounds, whatever the shape of clusters."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.progress import Quiet
from gristmill.curate.dedup.resolve import evidence, settle
from gristmill.engine.inline import InlineEngine
from gristmill.stages import resolve
from gristmill.stages.relation import Relation
from gristmill.stages.resolve import Resolution
from gristmill.stages.work import Query, Workshop

Edges = Sequence[tuple[int, int]]


class Notes(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


class Counting(InlineEngine):
    """Counts queries by the folder that they write to."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: list[str] = []

    def query(self, sql: str, tables: Any, out: Path) -> list[Path]:
        self.asked.append(out.parent.name)
        return super().query(sql, tables, out)


def relation(edges: Edges, folder: Path) -> Relation:
    earlier, later = (pa.array([edge[i] for edge in edges], pa.int64()) for i in (0, 1))
    similarity = pa.array([0.8 + (a * 7 + b) % 3 / 10 for a, b in edges], pa.float64())
    columns = {"earlier_key": earlier, "earlier": earlier, "later": later, "similarity": similarity}
    pq.write_table(pa.table(columns), folder / "edges.parquet")
    return Relation((folder / "edges.parquet",), "edges", len(edges))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    engine = Counting(1 << 28, tmp_path_factory.mktemp("spill"))
    yield engine
    engine.close()


@pytest.fixture
def resolution(engine: Counting, tmp_path: Path) -> Callable[[Edges], Resolution]:
    engine.asked.clear()
    return lambda edges: Resolution(Workshop(engine, tmp_path, Notes()), relation(edges, tmp_path))


def gone(found: Resolution) -> list[int]:
    """Each once, whichever round or task named it."""
    docs = [doc for table in found.gone() for file in table.files for doc in pq.read_table(file)["doc"].to_pylist()]
    assert len(docs) == len(set(docs))
    return sorted(docs)


def by_one_task(edges: Edges) -> list[int]:
    earlier, later = np.array([*edges], np.int64).reshape(-1, 2).T
    return settle(earlier, later).tolist()


@given(pairs=st.sets(st.tuples(st.integers(0, 40), st.integers(0, 40)).filter(lambda pair: pair[0] != pair[1])),
       order=st.permutations(range(41)))  # fmt: skip
def test_any_graph_in_any_order_is_settled_as_by_one_task(
    pairs: set[tuple[int, int]], order: list[int], engine: Counting
) -> None:
    edges = sorted({(a, b) if order[a] < order[b] else (b, a) for a, b in pairs})
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(resolve, "EDGES_A_TASK", 4)
        assert gone(Resolution(Workshop(engine, Path(folder), Quiet()), relation(edges, Path(folder)))) == by_one_task(
            edges
        )


@pytest.mark.parametrize(
    "numbers", [range(10_000), range(9_999, -1, -1), random.Random(1).sample(range(10_000), 10_000)]
)
def test_a_chain_of_ten_thousand_takes_as_many_rounds_as_its_length_has_bits(
    resolution: Any, engine: Counting, numbers: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "EDGES_A_TASK", 1000)
    chain = [*itertools.pairwise(numbers)]
    assert gone(resolution(chain)) == sorted(numbers[1::2])
    assert engine.asked.count("labels") <= 16 and engine.asked.count("gone") == 1


def test_a_crowd_around_its_first_document_is_one_round(
    resolution: Any, engine: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "EDGES_A_TASK", 1000)
    crowd = [(0, i) for i in range(1, 20_000)] + [(i, i + step) for i in range(1, 19_000) for step in (1, 5)]
    found = resolution(crowd)
    assert gone(found) == [*range(1, 20_000)]
    assert engine.asked == ["gone", "left"]


def test_what_fits_into_a_task_is_settled_by_it_alone(resolution: Any, engine: Counting) -> None:
    assert gone(resolution([(1, 2), (2, 3)])) == [2]
    assert engine.asked == []


def test_the_largest_cluster_and_the_rounds_are_told(resolution: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "EDGES_A_TASK", 10)
    found = resolution([(0, i) for i in range(1, 8)] + [*itertools.pairwise(range(100, 140))])
    tables = {"edges": [found.edges], "gone": found.gone()}
    found.tell(found.work.ask(Query("near", evidence(True, False), tables)))
    (said,) = found.work.progress.said
    assert said.startswith("27 near duplicates go, the largest cluster has 8 documents (rounds over all pairs: 1, to ")


def test_the_most_similar_that_stays_is_named_and_the_first_of_equals(resolution: Any) -> None:
    edges = [(0, 3), (1, 3), (2, 3), (0, 2), (1, 4), (0, 4)]
    found = resolution(edges)
    near = found.work.ask(Query("near", evidence(True, False), {"edges": [found.edges], "gone": found.gone()}))
    kept = {row["doc"]: (row["kept"], row["similarity"]) for row in pq.read_table([*near.files]).to_pylist()}
    weights = {(a, b): 0.8 + (a * 7 + b) % 3 / 10 for a, b in edges}
    best = {b: min((-weights[a, b], a) for a in (0, 1) if (a, b) in weights) for b in (2, 3, 4)}
    assert kept == {b: (a, -weight) for b, (weight, a) in best.items()}
