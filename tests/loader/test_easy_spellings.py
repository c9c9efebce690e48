"""Plans and loaders as one types them: paths, dicts and single words where they are obvious, with the same batches."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.testing import tiny_store

SHAPE = {"seq_len": 16, "batch_size": 4}


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    store = tiny_store(tmp_path)
    return [store.files.path(i) for i in range(store.num_shards)]


def test_sources_may_be_paths_lists_of_paths_and_stores(paths: list[str]) -> None:
    store = gm.open(paths)
    made = [gm.Plan({"data": each}, **SHAPE) for each in (store, paths, tuple(paths))]
    made += [gm.Plan(each, **SHAPE) for each in (store, paths, tuple(map(Path, paths)))]
    assert len({plan.fingerprint for plan in made}) == 1
    assert gm.Plan(paths[0], **SHAPE).fingerprint == gm.Plan({"data": gm.open(paths[0])}, **SHAPE).fingerprint


def test_a_store_without_a_name_has_the_same_order_wherever_it_lies(paths: list[str], tmp_path: Path) -> None:
    (tmp_path / "elsewhere.bin").write_bytes(Path(paths[0]).read_bytes())
    here, there = gm.Plan(paths[0], **SHAPE), gm.Plan(tmp_path / "elsewhere.bin", **SHAPE)
    assert here.fingerprint == there.fingerprint and here.names == ("data",)


def test_a_plan_of_paths_is_written_and_loaded_like_any_other(paths: list[str], tmp_path: Path) -> None:
    plan = gm.Plan({"a": paths[0], "b": paths[1]}, {"a": 0.5, "b": 0.5}, **SHAPE, steps=5)
    plan.save(str(tmp_path / "plan.json"))
    assert gm.load_plan(tmp_path / "plan.json").fingerprint == plan.fingerprint
    text = (tmp_path / "plan.json").read_text()
    assert gm.Plan.from_json(text, {"a": paths[0], "b": paths[1]}).fingerprint == plan.fingerprint


def test_options_and_all_in_them_may_be_dicts(paths: list[str]) -> None:
    store = gm.open(paths, eos=256)
    spelt = {
        "phases": [{"from_step": 3, "batch_size": 8}],
        "skip": [(1, 2)],
        "exclude": ["part-0:3", {"doc": "part-0:4"}],
    }
    easy = gm.Plan(store, **SHAPE, steps=9, options=spelt)
    exclude = [gm.Exclude("part-0:3"), gm.Exclude("part-0:4")]
    options = gm.PlanOptions(phases=[gm.Phase(3, batch_size=8)], skip=[gm.Skip(1, 2)], exclude=exclude)
    assert easy.fingerprint == gm.Plan({"data": store}, **SHAPE, steps=9, options=options).fingerprint
    with pytest.raises(gm.ConfigError, match=r"'cutt' in options \(did you mean 'cut'"):
        gm.Plan(store, **SHAPE, options={"cutt": "pad"})


def test_numpys_numbers_are_numbers(paths: list[str]) -> None:
    plan = gm.Plan(paths, seq_len=np.int64(16), batch_size=np.int32(4), seed=np.uint8(3), steps=np.int64(9))
    assert plan.fingerprint == gm.Plan(paths, seq_len=16, batch_size=4, seed=3, steps=9).fingerprint
    assert gm.Plan.from_json(plan.to_json(), paths).fingerprint == plan.fingerprint
    loader = gm.Loader(plan, rank=np.int64(0), world_size=np.int64(1))
    assert np.array_equal(loader.batch(np.int64(2))["input_ids"], loader.batch(2)["input_ids"])


def test_one_key_may_be_a_word(paths: list[str]) -> None:
    loader = gm.Loader(gm.Plan(paths, **SHAPE), keys="labels", threads=0)
    assert set(loader.batch(0)) == {"input_ids", "labels", "sample_ids"} and loader.keys == ("labels",)
    with pytest.raises(gm.ConfigError, match=r"keys .label. is not known .did you mean 'labels'"):
        gm.Loader(loader.plan, keys="label")


def test_leaving_a_with_ends_the_threads(paths: list[str]) -> None:
    before = set(threading.enumerate())
    with gm.Loader(gm.Plan(paths, **SHAPE, steps=1000), threads=2) as loader:
        next(iter(loader))
        readers = [each for each in set(threading.enumerate()) - before if each.name.startswith("gristmill-read")]
    assert readers and not any(thread.is_alive() for thread in readers)


def test_reprs_are_one_short_line(paths: list[str]) -> None:
    plan = gm.Plan({f"source-{i}": paths for i in range(50)}, **SHAPE, steps=2000)
    assert repr(plan) == ("Plan(source-0, source-1, source-2, source-3 and 46 more; chunk 16 x 4, seed 0, 2,000 steps)")
    loader = gm.Loader(gm.Plan(paths, **SHAPE, steps=2000), rank=1, world_size=2)
    assert repr(loader) == "Loader(at step 0 of 2,000, rank 1 of 2: Plan(data; chunk 16 x 4, seed 0, 2,000 steps))"


def test_a_notebook_shows_sources_and_shares(paths: list[str]) -> None:
    options = {"phases": [{"from_step": 5, "weights": {"<b>": 0.25, "c": 0.75}}]}
    plan = gm.Plan({"<b>": paths[0], "c": paths[1]}, {"<b>": 1, "c": 0}, **SHAPE, steps=9, options=options)
    shown = plan._repr_html_()
    assert "<b>" not in shown and "&lt;b&gt;" in shown and "from step 5" in shown and "25.0%" in shown
