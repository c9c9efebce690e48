"""`gristmill inspect`: stores, documents, plans, steps, checkpoints and foreign files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm

Command = Callable[..., Any]


@pytest.mark.parametrize("place", ["", "train", "val", "manifest.json"])
def test_a_store_is_shown_from_any_of_its_places(call: Command, store: Path, place: str) -> None:
    ran = call("inspect", store / place)
    shown = gm.open(store / "val" if place == "val" else store)
    assert shown.fingerprint in ran.out and "byte tokens" in ran.out


def test_a_store_as_json(gristmill: Command, store: Path) -> None:
    ran = gristmill("inspect", store, "--json")
    assert sum(split["documents"] for split in ran.json["splits"].values()) == 200 and not ran.said


def test_the_paths_of_a_split_are_files_that_open(call: Command, store: Path) -> None:
    paths = call("inspect", store / "train", "--paths").out.splitlines()
    assert paths == call("inspect", store, "--paths", "--json").json["train"]
    assert gm.open(paths, dtype="uint16").num_tokens == gm.open(store).num_tokens
    values = json.loads((store / "run.json").read_text())
    assert values["token_files"]["train"] == [os.path.realpath(path) for path in paths]


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_document_is_found_in_either_split(call: Command, store: Path, split: str) -> None:
    document = gm.open(store / split).document(3)
    ran = call("inspect", store, "--doc", document.id, "--json")
    assert [(row["store"], row["text"]) for row in ran.json] == [(str(store / split), document.text)]


def test_a_documents_text_is_shown_as_it_is_but_cannot_steer_the_terminal(gristmill: Command, store: Path) -> None:
    ran = gristmill("inspect", store, "--doc", "d7")
    assert r"document 7 [bold]:smile: é\x1b[31m" in ran.out


def test_a_terminal_that_knows_ascii_only_is_no_error(gristmill: Command, store: Path) -> None:
    ran = gristmill("inspect", store, "--doc", "d7", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert r":smile: \xe9" in ran.out


def test_a_long_document_says_how_much_is_shown(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 3000)
    call("prepare", tmp_path / "a.txt", "--out", tmp_path / "out", "--tokenizer", "byte", "--val-fraction", 0)
    ran = call("inspect", tmp_path / "out", "--doc", "text/a.txt")
    assert "x" * 1000 + "\n" in ran.out and "the first 1,000 of 3,000 characters" in ran.out


def test_a_plan_shows_its_forecast(gristmill: Command, call: Command, plan_file: Path) -> None:
    plan = gm.load_plan(plan_file)
    assert plan.fingerprint in gristmill("inspect", plan_file).out
    values = call("inspect", plan_file, "--json").json
    assert (values["fingerprint"], values["steps"]) == (plan.fingerprint, 10)
    assert values["forecast"]["sources"][0]["samples"] == 40


def test_a_step_and_a_document_of_a_plan_agree(gristmill: Command, call: Command, plan_file: Path) -> None:
    plan = gm.load_plan(plan_file)
    rows = gristmill("inspect", plan_file, "--step", 3, "--json").json
    assert rows == [vars(row) for row in plan.trace(3)]
    seen = call("inspect", plan_file, "--doc", rows[0]["doc_id"], "--json").json
    assert (3, rows[0]["row"]) in {(row["step"], row["row"]) for row in seen}
    assert "step 3" in call("inspect", plan_file, "--step", 3).out


def test_a_checkpoint_is_shown_and_checked_against_its_plan(
    gristmill: Command, call: Command, plan_file: Path, checkpoint: Path
) -> None:
    assert "step" in gristmill("inspect", checkpoint).out
    assert call("inspect", checkpoint, "--plan", plan_file, "--json").json["step"] == 5


@pytest.mark.parametrize(
    ("change", "named"),
    [({"seed": 2}, "seed (was 1, is 2)"), ({"seq_len": 16}, "seq_len"), ({"batch_size": 8}, "batch_size")],
)
def test_a_checkpoint_of_another_plan_names_what_differs(
    call: Command, store: Path, checkpoint: Path, tmp_path: Path, change: dict[str, int], named: str
) -> None:
    settings = {"seq_len": 32, "batch_size": 4, "seed": 1, "steps": 10, **change}
    gm.Plan({"web": gm.open(store)}, **settings).save(tmp_path / "other.json")
    said = call("inspect", checkpoint, "--plan", tmp_path / "other.json", code=2).said
    assert named in said and "belongs to another plan" in said


def test_a_bare_file_is_shown_with_its_dtype(call: Command, bare: Path) -> None:
    values = call("inspect", bare, "--json").json
    assert values == call("inspect", bare, "--dtype", "uint16", "--json").json
    assert values["tokens"] == bare.stat().st_size // 2 and values["boundaries"] == "none"
    assert call("inspect", bare, "--dtype", "uint16", "--eos", 256, "--json").json["documents"] == 60
    found = call("inspect", bare, "--dtype", "uint16", "--eos", 256, "--doc", "part-0:5", "--json").json
    assert found[0]["number"] == 5


def test_files_named_by_braces_are_shown_as_one_store(call: Command, tmp_path: Path) -> None:
    for i in range(3):
        np.arange(10, dtype=np.uint16).tofile(tmp_path / f"t-{i}.bin")
    found = call("inspect", tmp_path / "t-{0..2}.bin", "--dtype", "uint16", "--json").json
    assert (found["shards"], found["tokens"]) == (3, 30)
    assert "t-3.bin" in call("inspect", tmp_path / "t-{0..3}.bin", "--dtype", "uint16", code=2).said
    assert "--doc" in call("inspect", tmp_path / "t-{0..2}.bin", "--doc", "a", code=2).said


def test_wide_values_are_whole_where_nobody_watches(gristmill: Command, store: Path) -> None:
    ran = gristmill("inspect", store, env={**os.environ, "COLUMNS": "20"})
    assert gm.open(store).fingerprint in ran.out


def test_a_plan_that_is_endless_asks_how_far_to_look(call: Command, store: Path, tmp_path: Path) -> None:
    sources = {"a": gm.open(store), "b": gm.open(store / "val")}
    gm.Plan(sources, {"a": 0.5, "b": 0.5}, seq_len=32, batch_size=4).save(tmp_path / "endless.json")
    assert "endless" in call("inspect", tmp_path / "endless.json", "--doc", "d7", code=2).said
    assert call("inspect", tmp_path / "endless.json", "--doc", "d7", "--until", 500, "--json").json
    assert "endless" in call("inspect", tmp_path / "endless.json").out


MISTAKES: dict[str, tuple[list[str], str]] = {
    "a missing path": (["none"], "none does not exist"),
    "an unknown document": (["{store}", "--doc", "nobody"], "has the id 'nobody'"),
    "a step of a store": (["{store}", "--step", "3"], "--step asks about a plan"),
    "a plan with a store": (["{store}", "--plan", "x"], "--plan asks about a checkpoint"),
    "an unknown document of a plan": (["{plan}", "--doc", "nobody"], "is in none of the sources web"),
    "a step after the end": (["{plan}", "--step", "10"], "has steps from 0 to 9"),
    "a bare file that does not tell its dtype": (["short.bin"], "say --dtype uint16"),
    "an unknown dtype": (["{bare}", "--dtype", "int7"], "int7"),
    "JSON of something else": (["other.json"], "neither a plan nor a checkpoint"),
    "no JSON": (["broken.json"], "is not JSON"),
    "the plan of a plan": (["{plan}", "--plan", "{plan}"], "--plan asks about a checkpoint, and"),
    "a step of a checkpoint": (["{checkpoint}", "--step", "1"], "--step asks about a plan or a run, and"),
    "the type of a store": (["{store}", "--dtype", "uint16"], "--dtype asks about a token file, and"),
    "a checkpoint without its plan": (["{checkpoint}", "--plan", "none.json"], "none.json cannot be read"),
    "a plan with an unknown key": (["misspelt.json"], "did you mean 'seq_len'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_2(
    call: Command,
    store: Path,
    plan_file: Path,
    checkpoint: Path,
    bare: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "short.bin").write_bytes(bytes(20))
    (tmp_path / "misspelt.json").write_text(json.dumps({**json.loads(plan_file.read_text()), "seqlen": 3}))
    arguments, message = MISTAKES[case]
    places = {"store": store, "plan": plan_file, "checkpoint": checkpoint, "bare": bare}
    ran = call("inspect", *(argument.format(**places) for argument in arguments), code=2)
    assert message in ran.said and not ran.out


def test_a_folder_that_is_no_store_is_named_itself(call: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path}/empty holds no manifest.json" in call("inspect", tmp_path / "empty", code=1).said


def test_a_folder_of_raw_shards_is_shown_as_the_token_files_it_is(call: Command, store: Path, tmp_path: Path) -> None:
    call("export", store, "--to", "sharded-bin", "--out", tmp_path / "raw")
    shown = call("inspect", tmp_path / "raw" / "val", "--json").json
    assert (shown["dtype"], shown["eos"], shown["boundaries"]) == ("uint32", 256, "eos")
    assert shown["tokens"] == gm.open(store / "val").num_tokens
