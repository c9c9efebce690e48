"""Processes beside this one: work is done in another, and closing ends them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from gristmill.engine.processes import Processes


def test_work_is_done_in_another_process_until_closed_and_in_a_new_one_after() -> None:
    processes = Processes(1)
    first = processes.submit(os.getpid).result()
    assert first != os.getpid() and processes.submit(os.getpid).result() == first
    processes.submit(time.sleep, 600)
    processes.close()
    assert processes.submit(os.getpid).result() not in (first, os.getpid())
    processes.close()


COMMAND = """
import os, signal, sys, time
from gristmill.core.ending import Ending
from gristmill.core.watched import imported, watched
from gristmill.engine.processes import Processes

loaded = []

def load():
    loaded.append(os.getpid())

def look(_):
    time.sleep(0.2)
    deaf = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return os.getpid(), os.getppid(), loaded, deaf, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

def run():
    with Ending(last=True):
        imported()
        processes = Processes(2)
        processes.start(load)
        found = [each.result() for each in [processes.submit(look, i) for i in range(4)]]
        processes.submit(time.sleep, 600)
        processes.close()
        print(len({worker for worker, *_ in found}), all(rest == (os.getpid(), [os.getpid()], True, True)
              for _, *rest in found for rest in [tuple(rest)]))
    return 0

sys.exit(watched(run))
"""


def test_a_command_forks_copies_that_have_what_it_loaded_and_do_not_answer_its_signals() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("2 True\n", "", 0)
