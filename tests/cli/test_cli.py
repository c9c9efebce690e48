"""The program itself: help, wrong calls, a failing machine, `bench`, `warm`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


def test_version_and_help(gristmill: Command) -> None:
    assert gristmill("--version").out.startswith("gristmill 0.")
    assert "prepare" in gristmill("--help").out and "--val-fraction" in gristmill("prepare", "--help").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepar"], "There is no command 'prepar' (did you mean 'prepare'?)"),
        (["verify"], "the following arguments are required"),
        (["verify", "a", "b"], "does not know what to do with 'b'"),
        (["verify", "a", "--jsn"], "has no option --jsn (did you mean '--json'?)"),
        (["export", "a", "--out", "b"], "--to"),
    ],
)
def test_a_wrong_call_is_one_sentence(call: Command, arguments: list[str], message: str) -> None:
    said = call(*arguments, code=2).said
    assert message.lower() in said.lower() and len(said.splitlines()) == 1


@pytest.mark.parametrize("extra", [(), ("--keys", "labels,doc_ids", "--cut", "pad")])
def test_bench_measures_each_number_of_threads(gristmill: Command, store: Path, extra: tuple[str, ...]) -> None:
    options = ("--seq-len", 32, "--batch-size", 4, "--seconds", "0.2", *extra)
    rows = gristmill("bench", store, *options, "--json").json
    assert [row["threads"] for row in rows] == [0, 1, 2] and all(row["tokens_per_second"] > 0 for row in rows)


def test_bench_shows_a_table_and_reads_bare_files(gristmill: Command, bare: Path) -> None:
    options = ("--seq-len", 32, "--batch-size", 4, "--seconds", "0.2", "--dtype", "uint16", "--eos", 256)
    assert "million tokens/s" in gristmill("bench", bare, *options).out


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--cut", "pck"), "did you mean 'pack'"), (("--keys", "lables"), "did you mean 'labels'"),
     (("--cut", "pack", "--seq-len", "32"), "gristmill index"), (("--seq-len", "0"), "--seq-len must be")],
)  # fmt: skip
def test_bench_names_a_mistake(call: Command, store: Path, options: tuple[str, ...], message: str) -> None:
    assert message in call("bench", store, "--seconds", "0.1", *options, code=2).said


def test_warm_compiles_what_a_recipe_uses_into_a_folder_once(gristmill: Command, tmp_path: Path) -> None:
    recipe, kept = tmp_path / "r.yaml", tmp_path / "kept"
    recipe.write_text(
        f"out: {tmp_path / 'out'}\nsources: [{{name: a, paths: [{tmp_path / 'a.txt'}]}}]\ntokenizer: byte\n"
    )
    ran = gristmill("warm", "--recipe", recipe, "--dir", kept)
    assert "3 kernels were compiled" in ran.out and "which happens once" in ran.said
    assert {path.suffix for path in kept.iterdir()} == {".kept"}
    assert gristmill("warm", "--recipe", recipe, "--dir", kept, "--json").json == {"compiled": []}


def test_warm_names_a_folder_that_cannot_be_written(call: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in call("warm", "--dir", tmp_path / "file" / "below", code=2).said


def test_what_only_the_machine_can_say_is_one_sentence_and_exit_1(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    ran = call("prepare", tmp_path / "a.txt", "--out", tmp_path / "a.txt" / "below", "--tokenizer", "byte", code=1)
    assert "The machine failed: Not a directory" in ran.said


@pytest.mark.parametrize("json_wanted", [(), ("--json",)])
def test_a_reader_that_goes_away_is_no_error_to_print(store: Path, json_wanted: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "gristmill.cli", "inspect", str(store), *json_wanted]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")
