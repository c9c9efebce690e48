"""Locks that a fork cannot leave locked, and locks between processes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.core.locks import Lock, file_lock


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


def test_one_process_at_a_time_holds_the_lock_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with file_lock(path, wait=False), pytest.raises(BlockingIOError), file_lock(path, wait=False):
        pass
    with file_lock(path, wait=False):
        assert path.read_bytes() == b""


def test_a_lock_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    target, path = tmp_path / "mine", tmp_path / ".lock"
    target.write_text("mine")
    path.symlink_to(target)
    with pytest.raises(ConfigError, match="is a symbolic link"), file_lock(path, wait=False):
        pass
    assert target.read_text() == "mine"
