"""How much memory a run holds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gristmill.core.usage import began, resident_bytes

HOLDS = "held = bytearray(b'x' * 200_000_000); print(len(held), flush=True); input()"


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell")
def test_the_memory_of_processes_that_were_started_counts() -> None:
    before = resident_bytes()
    child = subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline()
    assert before > 10_000_000 and resident_bytes() > before + 150_000_000
    child.communicate(b"\n")


def test_a_process_that_has_ended_runs_no_more_though_nobody_has_asked_for_its_end() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # ended, and still in the kernel's table
    assert os.path.exists(f"/proc/{child}/stat") and began(child) is None
    os.waitpid(child, 0)
    assert began(child) is None and began(os.getpid())
