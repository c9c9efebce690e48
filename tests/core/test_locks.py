"""Locks that a fork cannot leave locked."""

from __future__ import annotations

import os
import threading

from gristmill.core.locks import Lock


def test_a_lock_that_a_thread_holds_is_free_in_a_forked_child() -> None:
    lock, held, over = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        with lock:
            os._exit(7)
    over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_lock_may_be_taken_again_by_who_holds_it() -> None:
    lock = Lock()
    with lock, lock:
        pass
