"""The program itself: help, wrong calls, a failing machine."""

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


def test_what_the_machine_refuses_is_one_sentence_and_exit_1(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    ran = call("prepare", tmp_path / "a.txt", "--out", tmp_path / "a.txt" / "below", "--tokenizer", "byte", code=1)
    assert "below cannot be written (Not a directory): choose another place." in ran.said


@pytest.mark.parametrize("json_wanted", [(), ("--json",)])
def test_a_reader_that_goes_away_is_no_error_to_print(store: Path, json_wanted: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "gristmill.cli", "inspect", str(store), *json_wanted]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")
