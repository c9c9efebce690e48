"""Incremental runs against a saved index."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.dedup.near import Near
from gristmill.places.folders import claim
from gristmill.stages.folders import IndexFolder
from gristmill.stages.index import save_index


def test_three_runs_drop_what_one_run_drops(
    make_search: Any, make_batch: Any, texts_of: Any, edit: Any, tmp_path: Path
) -> None:
    rng = random.Random(0)
    originals = texts_of(60)
    texts = originals + [edit(text, rng.choice([0.95, 0.85]), rng) for text in originals * 2] + texts_of(30, seed=9)
    rng.shuffle(texts)
    batches = [make_batch(texts[i : i + 35], i // 35) for i in range(0, len(texts), 35)]
    whole = pq.read_table(list(make_search(batches, Near(), "whole").evidence().files)).to_pylist()

    found = []
    index = None
    for run, some in enumerate((batches[:2], batches[2:3], batches[3:])):
        search = make_search(some, Near(index=index), f"work-{run}")
        evidence = search.evidence()
        index = str(tmp_path / f"index-{run}")
        save_index(search, [evidence], Path(index))
        found += pq.read_table(list(evidence.files)).to_pylist()
    assert [row["doc"] for row in found] == [row["doc"] for row in whole]
    for old, new in zip(whole, found, strict=True):
        kept = old["kept"]
        assert new["similarity"] == old["similarity"]
        assert (new["kept"], new["kept_id"]) == (kept, None) or new["kept_id"] == f"{kept >> 32}-{kept & 0xFFFFFFFF}"
    assert sum(row["kept_id"] is not None for row in found) > 30


@pytest.fixture
def saved(make_search: Any, make_batch: Any, texts_of: Any, tmp_path: Path) -> Path:
    save_index(make_search([make_batch(texts_of(3))], Near(verify=False)), [], tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize(
    "other", [{"ngram": 4}, {"seed": 1}, {"threshold": 0.5}, {"unit": "char"}, {"permutations": 64}]
)
def test_index_of_other_options_is_refused(saved: Path, make_search: Any, other: Any) -> None:
    with pytest.raises(ConfigError, match="was made with"):
        make_search([], Near(index=str(saved), verify=False, **other)).evidence()


def test_index_without_sets_cannot_verify(saved: Path, make_search: Any) -> None:
    with pytest.raises(ConfigError, match="no shingle sets"):
        make_search([], Near(index=str(saved))).evidence()


def test_no_index_there(make_search: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no near-duplicate index"):
        make_search([], Near(index=str(tmp_path))).evidence()


def test_index_is_not_overwritten(saved: Path) -> None:
    with pytest.raises(ConfigError, match="new folder"):
        IndexFolder(saved, "another run").look(False)


def test_parts_that_another_run_left_are_not_taken_for_ours(saved: Path) -> None:
    (saved / "index.json").unlink()
    parts = sorted(path.name for path in saved.iterdir())
    with pytest.raises(ConfigError, match="is no part of an index"):
        IndexFolder(saved, "one").look(False)
    claim(saved, IndexFolder(saved, "one").about)
    for run, left in (("one", parts), ("two", [])):
        with contextlib.suppress(KeyboardInterrupt), IndexFolder(saved, run).held(False):
            assert sorted(path.name for path in saved.glob("part-*")) == left
            raise KeyboardInterrupt
