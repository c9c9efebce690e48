"""The bytes of a store depend neither on workers nor on the engine, whatever the order in which it does things."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.engine.base import P, R, part_of
from gristmill.engine.inline import InlineEngine
from gristmill.store.verify import verify

Run = Callable[..., Path]
Read = Callable[[Path], dict[str, Any]]


def test_the_store_is_whole_and_holds_less_than_came_in(whole: dict[str, Any], run: Run) -> None:
    root = run("out")
    assert not verify(root).faults
    assert 0 < gm.open(root / "train").num_documents < 80
    assert len([name for name in whole if name.endswith(".bin")]) > 5


@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_gives_the_same_bytes(run: Run, read: Read, whole: dict[str, Any], workers: int) -> None:
    assert read(run("out", workers=workers)) == whole


class Cluster(InlineEngine):
    """Does what a cluster may: parts travel, are done in another order and twice, and rows come in several files."""

    def map(self, function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
        results = {}
        for i in reversed(range(len(parts))):
            for _ in range(2):
                does, part = pickle.loads(pickle.dumps((function, parts[i])))
                results[i] = does(part)
        return (results[i] for i in range(len(parts)))

    def query(self, sql: str, tables: Mapping[str, Sequence[Path]], out: Path) -> list[Path]:
        (whole,) = super().query(sql, tables, out)
        rows = pq.read_table(whole)
        cuts = [0, len(rows) // 3, len(rows) // 3, len(rows)]
        files = [part_of(out, i) for i in range(3)]
        for file, begin, end in zip(files, cuts[:-1], cuts[1:], strict=True):
            pq.write_table(rows.slice(begin, end - begin), file, row_group_size=5)
        whole.unlink()
        return files


MIX = {"weights": {f"{i}": weight for i, weight in enumerate((0.3, 0.1, 0.1, 0.2, 0.2, 0.1))}, "target": 120}


@pytest.mark.parametrize("options", [
    {}, {"shuffle": True}, {"mix": MIX}, {"mix": {**MIX, "unit": "tokens", "target": 90_000}, "shuffle": True},
    {"dedup": ["lines", "near", "exact"]}, {"dedup": [{"near": {"verify": False}}]},
])  # fmt: skip
def test_an_engine_that_behaves_as_a_cluster_gives_the_same_bytes(
    run: Run, read: Read, tmp_path: Path, options: dict[str, Any]
) -> None:
    cluster = run("cluster", engine=Cluster(1 << 28, tmp_path / "scratch"), **options)
    assert read(cluster) == read(run("here", **options))


@pytest.mark.parametrize("options", [{"shuffle": True}, {"store": {"compression": "zstd"}}])
def test_shuffled_and_compressed_stores_too(run: Run, read: Read, options: dict[str, Any]) -> None:
    assert read(run("one", workers=1, **options)) == read(run("two", workers=2, **options))


def test_shuffling_moves_documents_and_loses_none(run: Run) -> None:
    plain, shuffled = (gm.open(run(name, shuffle=name == "b") / "train") for name in ("a", "b"))
    ids = [[store.document(i).id for i in range(store.num_documents)] for store in (plain, shuffled)]
    assert ids[0] != ids[1] and sorted(ids[0]) == sorted(ids[1])
    other = gm.open(run("c", shuffle=True, seed=1) / "train")
    assert [other.document(i).id for i in range(20)] != ids[1][:20]


def test_a_document_of_a_shuffled_store_has_its_own_tokens_and_fields(run: Run) -> None:
    plain, shuffled = (gm.open(run(name, shuffle=name == "b") / "train") for name in ("a", "b"))
    texts = {(document := plain.document(i)).id: document for i in range(plain.num_documents)}
    for i in range(shuffled.num_documents):
        found = shuffled.document(i)
        assert found.text == texts[found.id].text and found.record["url"] == texts[found.id].record["url"]
