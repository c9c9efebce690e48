"""What dies of a signal is said in a sentence by the process that watches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUN = """
import os, signal, sys, time
from gristmill.core.watched import watched
def run():
    {does}
sys.exit(watched(run))
"""


def start(does: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", RUN.format(does=does)], stdout=-1, stderr=-1, text=True)


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_the_code_is_the_childs(code: int) -> None:
    process = start(f"print('out'); return {code}")
    assert process.communicate() == ("out\n", "") and process.returncode == code


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGKILL"])
def test_a_process_that_dies_is_a_sentence(name: str) -> None:
    process = start(f"os.kill(os.getpid(), signal.{name})")
    _, said = process.communicate()
    assert (
        process.returncode == 1 and said.startswith(f"gristmill: The process died ({name})") and said.count("\n") == 1
    )


def test_a_signal_to_the_watcher_alone_is_handed_on() -> None:
    process = start("print('ready', flush=True); time.sleep(60)")
    assert process.stdout and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[1] == "gristmill: terminated\n" and process.returncode == 143


def test_a_command_ends_with_its_watcher() -> None:
    process = start("print(os.getpid(), flush=True); time.sleep(60)")
    assert process.stdout
    child = int(process.stdout.readline())
    process.kill()
    until = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and os.getpgid(child):
        assert time.monotonic() < until
        time.sleep(0.05)
