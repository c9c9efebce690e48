"""The program itself: help, wrong calls, a failing machine."""

from __future__ import annotations

import errno
import os
import signal
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


def _unread(*arguments: str, stderr: int = subprocess.PIPE) -> tuple[int, str | None]:
    """The exit code and the words of a command whose stdout is a pipe that its reader has closed."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "gristmill.cli", *arguments]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, stdout=write_end, stderr=stderr, text=True, check=False, env=buffered)
    os.close(write_end)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [("inspect", "STORE"), ("inspect", "STORE", "--json"), ("inspect", "--help"), ()])
def test_a_reader_that_goes_away_ends_a_command_without_a_word(store: Path, arguments: tuple[str, ...]) -> None:
    assert _unread(*(str(store) if word == "STORE" else word for word in arguments)) == (128 + signal.SIGPIPE, "")


def test_an_error_that_nobody_reads_ends_a_command_too(tmp_path: Path) -> None:
    assert _unread("inspect", str(tmp_path), stderr=subprocess.STDOUT) == (128 + signal.SIGPIPE, None)


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [(">&-", ["--version"], 0), (">&-", ["inspect", "STORE"], 0), (">&-", ["inspect", "nothing"], 2),
     ("2>&-", ["inspect", "nothing"], 2), (">&- 2>&-", ["inspect", "nothing"], 2), (">&- 2>&-", ["--help"], 0)],
)  # fmt: skip
def test_a_command_whose_output_is_closed_does_what_it_does(
    store: Path, closed: str, arguments: list[str], code: int
) -> None:
    words = [str(store) if word == "STORE" else word for word in arguments]
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-m", "gristmill", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code and done.stdout == "" and "Traceback" not in done.stderr


def test_another_pipe_that_breaks_is_the_machines_failure(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(chosen: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("gristmill.cli_look.run_verify", broken)
    assert "The machine failed: Broken pipe." in call("verify", "x", code=1).said
