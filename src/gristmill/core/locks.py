"""Locks between threads that a fork cannot leave locked, and locks between processes on a file.

A process may be forked (by a framework's worker processes, say) while a reader thread holds a lock; the child has no
such thread to release it, and would wait for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from gristmill.core.errors import ConfigError
from gristmill.core.paths import disk_errors


class Lock:
    """A re-entrant lock that is new in every forked child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _every.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Forget who held it."""
        self._lock = threading.RLock()


_every: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_every):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)


@contextlib.contextmanager
def file_lock(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of an empty file that is made where there is none; BlockingIOError where others hold it.

    A symbolic link is refused, not followed, and nothing that the file may hold is touched.
    """
    with disk_errors(path):
        if path.is_symlink():
            raise ConfigError(f"{path} is a symbolic link, and a lock must be a file: remove the link.")
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)
