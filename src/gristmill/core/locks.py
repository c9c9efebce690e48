"""Locks between threads that a fork cannot leave locked.

A process may be forked (by a framework's worker processes, say) while a reader thread holds a lock; the child has no
such thread to release it, and would wait for ever.
"""

from __future__ import annotations

import os
import threading
import weakref


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
