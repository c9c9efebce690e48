"""Threads for what waits on a network: as many as there is work for, up to a bound, and none where there is none.

Nothing has to be closed: a thread that finds no work ends. What is urgent goes before what is done ahead of time, and
of the latter nothing more is begun once the program is ending.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from gristmill.core.locks import Lock

Task = Callable[[], None]


class Workers:
    """Runs tasks, which raise nothing, `most` at a time. Safe to call from many threads; empty after a fork."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name, self._lock = most, name, Lock()
        self._begin()

    def _begin(self) -> None:
        self._owner, self._running = os.getpid(), 0
        self._threads: list[threading.Thread] = []
        self._urgent: deque[Task] = deque()
        self._ahead: deque[Task] = deque()

    def submit(self, task: Task, *, ahead: bool = False) -> None:
        """Run a task soon, or when nothing urgent is left."""
        with self._lock:
            if self._owner != os.getpid():
                self._begin()
            (self._ahead if ahead else self._urgent).append(task)
            if self._running < self._most:
                thread = threading.Thread(target=self._work, name=self._name)
                thread.start()
                self._running += 1
                self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    def hurry(self, task: Task) -> None:
        """Let a task that waits among those ahead of time be urgent."""
        with self._lock:
            if task in self._ahead:
                self._ahead.remove(task)
                self._urgent.append(task)

    def withdraw(self, tasks: set[Task]) -> set[Task]:
        """Take back those of these tasks that have not begun and are not urgent."""
        with self._lock:
            found = tasks.intersection(self._ahead)
            self._ahead = deque(task for task in self._ahead if task not in found)
            return found

    def _work(self) -> None:
        while task := self._next():
            task()

    def _next(self) -> Task | None:
        with self._lock:
            if self._urgent:
                return self._urgent.popleft()
            if self._ahead and threading.main_thread().is_alive():
                return self._ahead.popleft()
            self._running -= 1
            return None

    def join(self) -> None:
        """Wait until all threads that run now have ended."""
        with self._lock:
            threads = self._threads if self._owner == os.getpid() else []
        for thread in threads:
            thread.join()
