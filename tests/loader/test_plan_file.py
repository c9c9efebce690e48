"""A plan's file finds its stores again, or says what is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.testing import random_documents, tiny_store


@pytest.fixture
def plan_file(make_store: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan over the store `out`, opened by a relative path."""
    make_store(tmp_path / "out", random_documents(60), vocab=257)
    monkeypatch.chdir(tmp_path)
    gm.Plan({"web": gm.open("out/train")}, seq_len=16, batch_size=4, seed=1).save("plan.json")
    return tmp_path / "plan.json"


def changed(plan_file: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A plan changed by hand, which its owner says by taking out the sum."""
    values = json.loads(plan_file.read_text())
    del values["sum"]
    change(values)
    plan_file.write_text(json.dumps(values))
    return plan_file


def test_a_plan_loads_from_any_working_directory(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = gm.load_plan(plan_file).fingerprint
    monkeypatch.chdir("/")
    assert gm.load_plan(plan_file).fingerprint == here


@pytest.mark.parametrize("shards", [1, 3])
def test_a_plan_over_bare_files_knows_how_they_were_opened(tmp_path: Path, shards: int) -> None:
    plan = gm.Plan({"web": tiny_store(tmp_path / "bare", shards=shards)}, seq_len=16, batch_size=4)
    plan.save(tmp_path / "plan.json")
    loaded = gm.load_plan(tmp_path / "plan.json")
    assert loaded.fingerprint == plan.fingerprint
    assert loaded.trace(0) == plan.trace(0)


def test_a_store_that_is_gone_is_named_with_its_source(plan_file: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(gm.ConfigError, match="source 'web' from out/train, which does not exist"):
        gm.load_plan(plan_file)


def test_another_store_in_its_place_is_refused(make_store: Callable[..., Path], plan_file: Path) -> None:
    shutil.rmtree("out")
    make_store(Path("out"), random_documents(60, seed=1), vocab=257)
    with pytest.raises(gm.ConfigError, match="is not the store of the plan"):
        gm.load_plan(plan_file)


MISTAKES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "unknown key": (lambda plan: plan.update(sed_len=8), "'sed_len'.*did you mean 'seq_len'"),
    "unknown option": (lambda plan: plan["options"].update(cutt="pack"), "'cutt'.*did you mean 'cut'"),
    "unknown key of a source": (lambda plan: plan["sources"]["web"].update(shard=1), "did you mean 'shards'"),
    "no seq_len": (lambda plan: plan.pop("seq_len"), "plan lacks 'seq_len'"),
    "no path": (lambda plan: plan["sources"]["web"].pop("path"), "source 'web' lacks 'path'"),
    "another version": (lambda plan: plan.update(gristmill_plan=99), "version 99"),
    "weights that do not add up": (lambda plan: plan.update(weights={"web": "0.7"}), "0.7"),
    "an unknown source in the weights": (lambda plan: plan.update(weights={"wep": "1"}), "wep"),
    "sources as a list": (lambda plan: plan.update(sources=["web"]), "sources must be a mapping, not list"),
    "a source that is no mapping": (lambda plan: plan["sources"].update(web=3), "'web' must be a mapping, not int"),
    "weights as a list": (lambda plan: plan.update(weights=[1]), "weights cannot be .1.: it is a mapping"),
    "max_epochs as text": (lambda plan: plan["options"].update(max_epochs="3"), "max_epochs cannot be '3'"),
    "a step that is nothing": (lambda plan: plan["options"].update(skip=[[None, 3]]), "from_step cannot be None"),
    "shards as text": (lambda plan: plan["sources"]["web"].update(shards="1"), "shards cannot be '1'"),
    "no path in a list": (lambda plan: plan["sources"]["web"].update(path=[]), "An empty list of files is no store"),
    "a path that is nothing": (lambda plan: plan["sources"]["web"].update(path=None), "path cannot be None"),
    "a weight without end": (lambda plan: plan.update(weights={"web": "1e999999999"}), "not a number"),
    "a weight far too small": (lambda plan: plan.update(weights={"web": "1e-999"}), "add up to 0"),
    "a size beyond all": (lambda plan: plan.update(batch_size=10**30), "batch_size cannot be"),
    "steps beyond all": (lambda plan: plan.update(steps=2**50), "steps cannot be above"),
    "a cut that is a list": (lambda plan: plan["options"].update(cut=["chunk"]), "cut cannot be"),
    "a size below 1": (lambda plan: plan.update(batch_size=0), "batch_size"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_a_plan_is_named(plan_file: Path, case: str) -> None:
    change, message = MISTAKES[case]
    with pytest.raises(gm.ConfigError, match=message):
        gm.load_plan(changed(plan_file, change))


def test_a_plan_without_a_sum_loads_and_so_does_one_whose_store_was_moved(plan_file: Path, tmp_path: Path) -> None:
    plan = gm.load_plan(plan_file).fingerprint
    (tmp_path / "out").rename(tmp_path / "moved")
    plan_file.write_text(plan_file.read_text().replace("out/train", "moved/train"))
    assert gm.load_plan(plan_file).fingerprint == plan
    assert gm.load_plan(changed(plan_file, lambda values: None)).fingerprint == plan


def test_any_byte_of_a_plan_that_changed_is_found_or_changes_nothing(plan_file: Path) -> None:
    plan, data, same = gm.load_plan(plan_file).to_json(), plan_file.read_bytes(), 0
    for at in range(len(data)):
        plan_file.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        try:
            assert gm.load_plan(plan_file).to_json() == plan
            same += 1
        except gm.ConfigError:
            continue
    assert same < len(data) / 4  # blanks between its words


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(gm.ConfigError, match=r"none.json cannot be read"):
        gm.load_plan(tmp_path / "none.json")


def test_a_batch_that_the_world_size_does_not_divide_is_refused(plan_file: Path) -> None:
    with pytest.raises(gm.ConfigError, match=r"batch_size 4 .* cannot be split over 3 ranks"):
        gm.Loader(gm.load_plan(plan_file), rank=0, world_size=3)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "9" * 5_000, "[" * 100_000, '"\\ud800"'])
def test_json_that_no_plan_can_hold_is_named(plan_file: Path, value: str) -> None:
    text = plan_file.read_text().replace('"seed": 1', f'"seed": {value}')
    plan_file.write_text(text)
    with pytest.raises(gm.ConfigError, match="The plan is not JSON that can be used"):
        gm.load_plan(plan_file)


def test_a_key_that_a_plan_has_twice_is_named(plan_file: Path) -> None:
    plan_file.write_text(plan_file.read_text().replace('"seed": 1', '"seed": 1, "seed": 2'))
    with pytest.raises(gm.ConfigError, match="the key 'seed' is there twice"):
        gm.load_plan(plan_file)


def test_loading_a_plan_and_its_batches_needs_nothing_of_the_writing_half(plan_file: Path) -> None:
    code = (
        "import sys, gristmill as gm\n"
        f"gm.Loader(gm.load_plan({str(plan_file)!r}), keys='labels').batch(0)\n"
        "print(*(name.split('.')[1] for name in sys.modules if name.startswith('gristmill.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"core", "loader", "order", "places", "store"}
