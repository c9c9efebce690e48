"""A command that is told to end does so in one sentence, with the code that shells expect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill.cli import main
from gristmill.core.ending import Ending

SLOW = """
import gristmill.core.ending as ending, signal, time
ending._GRACE_SECONDS, ending._AGAIN_SECONDS = patience, 0.05
with ending.Ending() as told:
    told.hint = "."
    while True:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass
"""

EXECUTED = """
import signal
from gristmill.core.ending import Ending
with Ending(last=True) as ending:
    try:
        exec("signal.raise_signal(signal.SIGTERM)")
    except KeyboardInterrupt:
        raise SystemExit(ending.say())
"""


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background of a shell, which has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], int]:
    """Let `gristmill verify x` do something else; its exit code."""

    def run(does: Callable[[], None]) -> int:
        monkeypatch.setattr("gristmill.cli_look.run_verify", lambda chosen: does())
        return main(["verify", "x"])

    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_one_sentence(command: Callable[..., int], capfd: pytest.CaptureFixture[str], number: int) -> None:
    assert command(lambda: signal.raise_signal(number)) == 128 + number
    assert capfd.readouterr().err == f"gristmill: {'interrupted' if number == signal.SIGINT else 'terminated'}\n"


def test_whatever_a_library_makes_of_an_interrupt_it_is_one(
    command: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    def wraps() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise SystemError("a function returned a result with an exception set") from error

    assert command(wraps) == 130 and capfd.readouterr().err == "gristmill: interrupted\n"


def test_want_of_memory_is_one_sentence(command: Callable[..., int], capfd: pytest.CaptureFixture[str]) -> None:
    def asks() -> None:
        raise MemoryError

    assert command(asks) == 1 and capfd.readouterr().err.startswith("gristmill: There was not enough memory.")


def test_signals_are_as_they_were_after_a_command(command: Callable[..., int]) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert command(lambda: None) == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Ending() as ending:
            signal.raise_signal(signal.SIGINT)
        assert ending.told is None
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("times", [1, 2])
def test_work_that_hears_nothing_is_ended_by_force(times: int) -> None:
    code = SLOW.replace("patience", "0.2" if times == 1 else "60")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n"
    for _ in range(times):
        os.kill(process.pid, signal.SIGTERM)
        time.sleep(0.2)
    assert process.communicate()[1] == "gristmill: terminated.\n" and process.returncode == 143


def test_a_process_that_goes_on_after_a_command_is_not_ended_by_its_signal(
    command: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill.core.ending._GRACE_SECONDS", 0.05)
    forced: list[int] = []
    monkeypatch.setattr(Ending, "_force", lambda self, number: forced.append(number))
    assert command(lambda: signal.raise_signal(signal.SIGTERM)) == 143
    time.sleep(0.3)
    assert not forced


def test_an_interrupt_inside_a_string_that_is_executed_is_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(EXECUTED)
    ended = subprocess.run([sys.executable, "-m", "told"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (143, "gristmill: terminated\n")
