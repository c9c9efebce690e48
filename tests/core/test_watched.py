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


FORKS = "from gristmill.core.watched import imported, is_command, may_fork"


def test_a_commands_process_may_be_forked_until_a_library_works_in_threads_of_its_own() -> None:
    asks = "print(is_command(), may_fork())"
    works = "import duckdb; held = duckdb.connect(config={'threads': 2}); held.sql('SELECT 1')"
    process = start(f"{FORKS}; import pyarrow; imported(); {asks}; {works}; {asks}; return 0")
    assert process.communicate() == ("True True\nTrue False\n", "")


def test_threads_of_python_are_in_nobodys_way_and_nobody_elses_process_is_forked() -> None:
    waits = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    process = start(f"{FORKS}; import threading; imported(); {waits}; print(may_fork()); return 0")
    assert process.communicate() == ("True\n", "")
    code = f"{FORKS}; imported(); print(is_command(), may_fork())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"
