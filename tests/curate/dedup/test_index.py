"""Incremental runs against a saved index."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import ConfigError
from gristmill.core.progress import Quiet
from gristmill.curate.dedup.duplicates import near_duplicates
from gristmill.curate.dedup.index import save_index
from gristmill.curate.dedup.near import Near


def test_three_runs_drop_what_one_run_drops(
    make_units: Any, make_batch: Any, texts_of: Any, edit: Any, engine: Any, tmp_path: Path
) -> None:
    rng = random.Random(0)
    originals = texts_of(60)
    texts = originals + [edit(text, rng.choice([0.95, 0.85]), rng) for text in originals * 2] + texts_of(30, seed=9)
    rng.shuffle(texts)
    batches = [make_batch(texts[i : i + 35], i // 35) for i in range(0, len(texts), 35)]
    units = make_units(batches, Near())
    whole = pq.read_table(near_duplicates(engine, units, Near(), [], tmp_path / "whole", Quiet()).evidence).to_pylist()

    found = []
    index = None
    for run, some in enumerate((units[:2], units[2:3], units[3:])):
        options = Near(index=index)
        result = near_duplicates(engine, some, options, [], tmp_path / f"work-{run}", Quiet())
        index = str(tmp_path / f"index-{run}")
        save_index(engine, some, options, [result.evidence], Path(index), tmp_path / f"work-{run}")
        found += pq.read_table(result.evidence).to_pylist()
    assert [row["doc"] for row in found] == [row["doc"] for row in whole]
    for old, new in zip(whole, found, strict=True):
        kept = old["kept"]
        assert new["similarity"] == old["similarity"]
        assert (new["kept"], new["kept_id"]) == (kept, None) or new["kept_id"] == f"{kept >> 32}-{kept & 0xFFFFFFFF}"
    assert sum(row["kept_id"] is not None for row in found) > 30


@pytest.fixture
def saved(make_units: Any, make_batch: Any, texts_of: Any, engine: Any, tmp_path: Path) -> Path:
    units = make_units([make_batch(texts_of(3))], Near())
    work = tmp_path / "saved-work"
    work.mkdir()
    save_index(engine, units, Near(verify=False), [], tmp_path / "index", work)
    return tmp_path / "index"


@pytest.mark.parametrize(
    "other", [{"ngram": 4}, {"seed": 1}, {"threshold": 0.5}, {"unit": "char"}, {"permutations": 64}]
)
def test_index_of_other_options_is_refused(saved: Path, engine: Any, tmp_path: Path, other: Any) -> None:
    with pytest.raises(ConfigError, match="was made with"):
        near_duplicates(engine, [], Near(index=str(saved), verify=False, **other), [], tmp_path / "w", Quiet())


def test_index_without_sets_cannot_verify(saved: Path, engine: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no shingle sets"):
        near_duplicates(engine, [], Near(index=str(saved)), [], tmp_path / "w", Quiet())


def test_no_index_there(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no near-duplicate index"):
        near_duplicates(engine, [], Near(index=str(tmp_path)), [], tmp_path / "w", Quiet())


def test_index_is_not_overwritten(saved: Path, engine: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="new folder"):
        save_index(engine, [], Near(), [], saved, tmp_path)
