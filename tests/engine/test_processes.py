"""Processes beside this one: work is done in another, and closing ends them."""

from __future__ import annotations

import os
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
